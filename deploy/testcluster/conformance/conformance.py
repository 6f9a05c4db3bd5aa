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
from collections.abc import Iterator
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
LONGEST_REASON = 160
HEAD = """\
# Conformance

Written by `make conformance`: the specs of the official suite's groups whose focus needs no web servers in pods.
Beside them what a real control plane 1.34.4 with simulated nodes passes of the same focus.

| group | passed | failed | the real one |
| --- | --- | --- | --- |
"""


class ConformanceError(Exception):
    """The suite cannot be run; the message says what to do."""


@dataclass
class Outcome:
    """What came of one group: the names of its specs, and why those that failed did."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


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
    with (folder / "output.txt").open("wb") as output:
        subprocess.run(command, cwd=folder, stdout=output, stderr=output, check=False)  # noqa: S603 - our own flags


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
        elif spec["State"] not in ("skipped", "pending"):
            reason = " ".join(str(spec.get("Failure", {}).get("Message", "")).split())
            found.failed[name] = reason[:LONGEST_REASON]
    return found


def _specs(suites: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for suite in suites:
        yield from (spec for spec in suite["SpecReports"] or () if spec["LeafNodeType"] == "It")


def table(folder: Path) -> str:
    """Return all reports of a folder as Markdown."""
    outcomes = {path.parent.name: outcome(path) for path in sorted(folder.glob("*/report.json"))}
    lines = [*HEAD.splitlines()]
    for group, found in outcomes.items():
        real = "{} of {}".format(*BASELINE[group]) if group in BASELINE else ""
        lines.append(f"| {group} | {len(found.passed)} | {len(found.failed)} | {real} |")
    for group, found in outcomes.items():
        if found.failed:
            lines += ["", f"## Failed in {group}", ""]
            lines += [f"- {name}: {_escaped(reason)}" for name, reason in sorted(found.failed.items())]
    return "\n".join(lines) + "\n"


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
