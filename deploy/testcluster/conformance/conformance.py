"""Run the official conformance suite over a kubeconfig, group by group, and write down what passed.

``python deploy/testcluster/conformance/conformance.py --kubeconfig K [--bin DIR] [--group G ...] [--write FILE]``

The binaries ``e2e.test`` and ``ginkgo`` come from ``--bin`` (see ``make conformance``), else from PATH. Every run
keeps its report in ``--folder``; ``--write`` makes one Markdown table of all reports that lie there, once every group
has one. Specs of one's own choice (``--focus``) are told and go into no table.
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
"""Specs that a real control plane 1.34.4 with four simulated nodes passes, and how many there are."""
JOINED = {"apps": (50, 52), "auth": (9, 10), "cli": (14, 17), "node": (88, 89)}
"""The same with four nodes of kubesim's that have joined it, for the groups where that was measured."""
LISTED = {
    "Aggregator Should be able to support the 1.17 Sample API Server": (
        "its pod is the suite's sample API server beside an etcd: two real programs, of which simulated containers "
        "have none; groups that another server answers for are tested with one of our own"
    ),
}
"""Specs that cannot pass, by the beginning of their names within the suite's hierarchy, each with the reason."""
FOCUS = "focus"
"""The folder of the report of specs of one's own choice."""
LONGEST_REASON = 160
HEAD = """\
# Conformance

Written by `make conformance`: specs of the official suite of 1.34.4, group by group, on a fresh kubesim with four of
its own nodes. `webhooks` and `aggregator` are what the first groups leave out as needing servers in pods;
`scheduling-serial` and `taints` want the cluster to themselves. Beside them what a real control plane passes of the
same specs, where that was measured: with kwok's simulated nodes, and with kubesim's, which have joined it. Specs that
the suite itself skips (two zones, another platform) are not counted.

"""


COLUMNS = (
    "| group | passed | failed | listed | the real one with kwok | with these nodes |",
    "| --- | --- | --- | --- | --- | --- |",
)
FAILED = ("failed", "timedout", "panicked", "interrupted", "aborted")
REPORT = "report.json"
COMMIT = "commit"
"""A file beside each report: what it is a report of."""


BUILT = "Run: make conformance   (needs Go 1.25 or newer, once)"
HINTS = {"kubectl": "Specs of kubectl need one on PATH: https://kubernetes.io/docs/tasks/tools"}


class ConformanceError(Exception):
    """The suite cannot be run; the message says what to do."""


@dataclass
class Outcome:
    """Results of one group: names of its specs, reasons of failures, and of those known to be unable to pass."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    listed: dict[str, str] = field(default_factory=dict)


def run(options: argparse.Namespace, group: str) -> None:
    """Run one group; its report lies in ``folder/group/report.json`` afterwards. Raises ConformanceError."""
    folder: Path = options.folder.resolve() / group
    folder.mkdir(parents=True, exist_ok=True)
    report, output = folder / REPORT, folder / "output.txt"
    report.unlink(missing_ok=True)
    chosen = GROUPS.get(group) or Group(options.focus, "")
    skipped = [f"--skip={pattern}" for pattern in (chosen.skip, options.skip) if pattern]
    command = [
        find("ginkgo", options.bin), f"--procs={options.procs}", "--no-color", "--silence-skips",
        f"--timeout={options.timeout}", f"--focus={chosen.focus}", *skipped,
        f"--json-report={REPORT}", f"--output-dir={folder}", find("e2e.test", options.bin), "--",
        f"--kubeconfig={options.kubeconfig.resolve()}", "--provider=skeleton", "--allowed-not-ready-nodes=-1",
        f"--kubectl-path={find('kubectl', options.bin)}", "--system-pods-startup-timeout=1s",
    ]  # fmt: skip
    (folder / COMMIT).write_text(options.commit or commit(), encoding="utf-8")
    with output.open("wb") as said:
        subprocess.run(command, cwd=folder, stdout=said, stderr=said, check=False)  # noqa: S603 - our own flags
    if not report.exists():
        raise ConformanceError(f"the suite did not run; {output} says why")


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
        raise ConformanceError(f"{name} was not found. {HINTS.get(name, BUILT)}")
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
    there = [group for group in GROUPS if (folder / group / REPORT).exists()]
    outcomes = {group: outcome(folder / group / REPORT) for group in there}
    lines = [*HEAD.splitlines(), f"Run on {_commits(folder, there)}.", "", *COLUMNS]
    lines += [_row(group, found, BASELINE.get(group), JOINED.get(group)) for group, found in outcomes.items()]
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


def _commits(folder: Path, groups: list[str]) -> str:
    """Return the commit that the groups were run on; where it is not one for all, which groups belong to each."""
    run: dict[str, list[str]] = {}
    for group in groups:
        file = folder / group / COMMIT
        named = file.read_text(encoding="utf-8").strip() if file.exists() else ""
        run.setdefault(named or "an unknown commit", []).append(group)
    if len(run) < 2:
        return "".join(run)
    return "; ".join(f"{name} ({', '.join(groups)})" for name, groups in run.items())


def _row(name: str, found: Outcome, *real: tuple[int, int] | None) -> str:
    """Return a line of the table; ``real``: what the real one passes, in one way and in the other."""
    shown = ["{} of {}".format(*figures) if figures else "" for figures in (*real, None)[:2]]
    return f"| {name} | {len(found.passed)} | {len(found.failed)} | {len(found.listed)} | {' | '.join(shown)} |"


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
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--group", choices=[*GROUPS], action="append", help="one group (default: every one)")
    which.add_argument("--focus", default="", help="a pattern of specs in place of the groups")
    parser.add_argument("--skip", default="", help="a pattern to leave out beside what the groups leave out anyway")
    parser.add_argument("--procs", type=int, default=2)
    parser.add_argument("--timeout", default="30m", help="of each group (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=Path("bench/results/conformance"))
    parser.add_argument("--commit", default="", help="what is run, where that is not what git says of this file")
    parser.add_argument("--write", type=Path, help="Markdown file for the table of all reports")
    options = parser.parse_args(arguments)
    groups = [FOCUS] if options.focus else options.group or [*GROUPS]
    try:
        failed = [bool(_told(options, group).failed) for group in groups]
    except ConformanceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if options.write and not options.focus:
        _write(options.folder, options.write)
    return int(any(failed))


def _told(options: argparse.Namespace, group: str) -> Outcome:
    """Run a group, say what came of it, and return that. Raises ConformanceError."""
    run(options, group)
    found = outcome(options.folder / group / REPORT)
    print(f"{group}: {len(found.passed)} passed, {len(found.failed)} failed", flush=True)
    for name, reason in sorted(found.failed.items()):
        print(f"  {name}: {reason}", flush=True)
    return found


def _write(folder: Path, page: Path) -> None:
    """Write the table of a whole run; what lacks groups would tell less than the page does already."""
    lacking = [group for group in GROUPS if not (folder / group / REPORT).exists()]
    if lacking:
        print(f"{page} is left as it is: there are no reports of {', '.join(lacking)} in {folder}")
    else:
        page.write_text(table(folder), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
