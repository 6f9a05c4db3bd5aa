"""Run the official conformance suite over a kubeconfig, group by group, and write down what passed.

``python deploy/testcluster/conformance/conformance.py --kubeconfig K [--bin DIR] [--group G ...] [--write FILE]``

The binaries ``e2e.test`` and ``ginkgo`` come from ``--bin`` (see ``make conformance``), else from PATH. Every run
keeps its report in ``--folder``; ``--write`` makes one Markdown table of all reports that lie there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SIGS = ("api-machinery", "apps", "architecture", "auth", "cli", "instrumentation", "scheduling")
SKIP = r"AdmissionWebhook|Aggregator|CustomResourceConversionWebhook|\[Serial\]"
"""Needs web servers in pods, or the cluster to itself: has groups of its own."""


@dataclass(frozen=True, slots=True)
class Group:
    """Some specs of the suite: which names have them, and which of those are left out."""

    focus: str
    skip: str = SKIP


GROUPS = {sig: Group(rf"\[sig-{sig}\].*\[Conformance\]") for sig in SIGS} | {
    "webhooks": Group(r"(AdmissionWebhook|CustomResourceConversionWebhook).*\[Conformance\]", ""),
    "aggregator": Group(r"Aggregator.*\[Conformance\]", ""),
    "node": Group(r"\[sig-node\].*\[Conformance\]", r"\[Serial\]"),
    "scheduling-serial": Group(r"\[sig-scheduling\].*\[Serial\]", ""),
    "taints": Group(r"NoExecuteTaintManager", ""),
}
BASELINE = {
    "api-machinery": (59, 61), "apps": (30, 52), "architecture": (1, 1), "auth": (7, 10), "cli": (12, 17),
    "instrumentation": (4, 4), "scheduling": (2, 2),
}  # fmt: skip
"""What a real control plane 1.34.4 with four simulated nodes passes, of how many."""
LISTED = {
    "Aggregator Should be able to support the 1.17 Sample API Server": (
        "its pod is the suite's sample API server beside an etcd: two real programs, of which simulated containers "
        "have none; groups that another server answers for are tested with one of our own"
    ),
}
"""What cannot pass, by the beginning of its name within the suite's hierarchy, and why."""
LONGEST_REASON = 160
HEAD = """\
# Conformance

Written by `make conformance`: specs of the official suite of 1.34.4, group by group, on a fresh kubesim with four of
its own nodes. `webhooks` and `aggregator` are what the first groups leave out as needing servers in pods;
`scheduling-serial` and `taints` want the cluster to themselves. Beside them what a real control plane with simulated
(kwok) nodes passes of the same specs, where that was measured. Specs that the suite itself skips (two zones, another
platform) are not counted.

"""


COLUMNS = ("| group | passed | failed | listed | the real one |", "| --- | --- | --- | --- | --- |")
FAILED = ("failed", "timedout", "panicked", "interrupted", "aborted")
COMMIT = "commit"
"""A file beside each report: what it is a report of."""


class ConformanceError(Exception):
    """The suite cannot be run; the message says what to do."""


@dataclass
class Outcome:
    """What came of one group: the names of its specs, why some failed, and why those cannot pass that are known."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    listed: dict[str, str] = field(default_factory=dict)


def run(options: argparse.Namespace, group: str) -> None:
    """Run one group; its report lies in ``folder/group/report.json`` afterwards."""
    folder: Path = options.folder.resolve() / group
    folder.mkdir(parents=True, exist_ok=True)
    focus = options.focus or GROUPS[group].focus
    skipped = [f"--skip={pattern}" for pattern in (GROUPS[group].skip, options.skip) if pattern]
    command = [
        find("ginkgo", options.bin), f"--procs={options.procs}", "--no-color", "--silence-skips",
        f"--timeout={options.timeout}", f"--focus={focus}", *skipped,
        "--json-report=report.json", f"--output-dir={folder}", find("e2e.test", options.bin), "--",
        f"--kubeconfig={options.kubeconfig.resolve()}", "--provider=skeleton", "--allowed-not-ready-nodes=-1",
        f"--kubectl-path={find('kubectl', options.bin)}", "--system-pods-startup-timeout=1s",
    ]  # fmt: skip
    (folder / COMMIT).write_text(options.commit or commit(), encoding="utf-8")
    with (folder / "output.txt").open("wb") as output:
        subprocess.run(command, cwd=folder, stdout=output, stderr=output, check=False)  # noqa: S603 - our own flags


def commit() -> str:
    """Return which commit of this repository is run; empty where git does not say."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return ""


def find(name: str, folder: Path | None) -> str:
    """Return the path of a program. Raises ConformanceError."""
    candidate = str(folder.resolve() / name) if folder else ""
    found = candidate if os.access(candidate, os.X_OK) else shutil.which(name)
    if not found:
        raise ConformanceError(f"{name} was not found. Run: make conformance   (needs Go 1.25 or newer, once)")
    return found


def outcome(report: Path) -> Outcome:
    """Read a report of ginkgo's."""
    found = Outcome()
    for spec in _specs(json.loads(report.read_text(encoding="utf-8"))):
        name = " ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])
        if spec["State"] == "passed":
            found.passed.append(name)
        elif spec["State"] in FAILED and (why := next((LISTED[part] for part in LISTED if part in name), "")):
            found.listed[name] = why
        elif spec["State"] not in ("skipped", "pending"):
            reason = " ".join(str(spec.get("Failure", {}).get("Message", "")).split())
            found.failed[name] = reason[:LONGEST_REASON]
    return found


def _specs(suites: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for suite in suites:
        yield from (spec for spec in suite["SpecReports"] or () if spec["LeafNodeType"] == "It")


def table(folder: Path) -> str:
    """Return all reports of a folder as Markdown."""
    there = [group for group in GROUPS if (folder / group / "report.json").exists()]
    outcomes = {group: outcome(folder / group / "report.json") for group in there}
    lines = [*HEAD.splitlines(), f"Run on {', '.join(_commits(folder, there)) or 'an unknown commit'}.", "", *COLUMNS]
    lines += [_row(group, found, BASELINE.get(group)) for group, found in outcomes.items()]
    focus = [outcomes[group] for group in there if group in SIGS]
    if len(focus) == len(SIGS):
        lines.append(_row("the first seven", _sum(focus), (115, 147)))
    lines.append(_row("all", _sum(outcomes.values()), None))
    listed = {name: why for found in outcomes.values() for name, why in found.listed.items()}
    if listed:
        lines += ["", "## Listed: cannot pass", "", *(f"- {name}: {why}." for name, why in sorted(listed.items()))]
    for group, found in outcomes.items():
        if found.failed:
            lines += ["", f"## Failed in {group}", ""]
            lines += [f"- {name}: {_escaped(reason)}" for name, reason in sorted(found.failed.items())]
    return "\n".join(lines) + "\n"


def _commits(folder: Path, groups: list[str]) -> list[str]:
    """Return the commits that the groups were run on; one, if all is well."""
    files = [folder / group / COMMIT for group in groups]
    return sorted({path.read_text(encoding="utf-8") for path in files if path.exists()} - {""})


def _row(name: str, found: Outcome, real: tuple[int, int] | None) -> str:
    shown = "{} of {}".format(*real) if real else ""
    return f"| {name} | {len(found.passed)} | {len(found.failed)} | {len(found.listed)} | {shown} |"


def _sum(outcomes: Iterable[Outcome]) -> Outcome:
    whole = Outcome()
    for found in outcomes:
        whole.passed += found.passed
        whole.failed |= found.failed
        whole.listed |= found.listed
    return whole


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def main(arguments: list[str]) -> int:
    """Run the groups; 1 where one of them has failures."""
    parser = argparse.ArgumentParser(prog="conformance", description="The official suite over any kubeconfig.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--bin", type=Path, help="folder of e2e.test, ginkgo and kubectl; PATH where it has none")
    parser.add_argument("--group", choices=[*GROUPS], action="append", help="one group (default: every one)")
    parser.add_argument("--focus", default="", help="a pattern in place of the group's")
    parser.add_argument("--skip", default="", help="a pattern to leave out beside what is left out anyway")
    parser.add_argument("--procs", type=int, default=2)
    parser.add_argument("--timeout", default="30m", help="of each group (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=Path("bench/results/conformance"))
    parser.add_argument("--commit", default="", help="what is run, where that is not what git says of this file")
    parser.add_argument("--write", type=Path, help="Markdown file for the table of all reports")
    options = parser.parse_args(arguments)
    groups = options.group or [*GROUPS]
    try:
        for group in groups:
            run(options, group)
            found = outcome(options.folder / group / "report.json")
            print(f"{group}: {len(found.passed)} passed, {len(found.failed)} failed", flush=True)
    except ConformanceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if options.write:
        options.write.write_text(table(options.folder), encoding="utf-8")
    return int(any(outcome(options.folder / group / "report.json").failed for group in groups))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
