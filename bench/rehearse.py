"""The whole interview with no person, against the goals of a first release, and ten preparations beside one."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.figures import Figure, report
from bench.installation import SCENARIO, installed

ROUNDS = 3
GOALS = {"symptom_s": 2.0, "reverted_s": 5.0}
AT_ONCE, MAX_RATIO = 10, 3.0
PREPARED = (1, 1, AT_ONCE, 1, AT_ONCE, 1, AT_ONCE)
"""The number of preparations at once in each round; the first, in which everything is new, does not count."""


def rehearse() -> dict[str, Any]:
    """Run one rehearsal and return its JSON object."""
    command = [sys.executable, "-W", "ignore", "manage.py", "rehearse", "--scenario", SCENARIO, "--json"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(answer.stdout)
    return result


def prepare_many() -> Figure:
    """Prepare ten sessions at once, and one beside them, in the same installation."""
    with tempfile.TemporaryDirectory(prefix="fl-bench-") as folder, installed(Path(folder)) as installation:
        taken = json.loads(installation.run("preparing_scene", json.dumps([installation.process.pid, PREPARED])))
    rounds = [*zip(PREPARED, taken, strict=True)][1:]
    (one, one_cpu), (many, many_cpu) = (_medians(rounds, count) for count in (1, AT_ONCE))
    print(f"  ready after {one:.2f} s alone, and after {many:.2f} s the last of {AT_ONCE} at once")
    print(f"  processor time: {one_cpu:.2f} s alone, {many_cpu:.2f} s for {AT_ONCE}, {many_cpu / one_cpu:.1f} x one")
    cores = os.cpu_count() or 1
    print(f"  so that {cores} cores, always busy, would have needed {many_cpu / cores / one:.1f} x one")
    return Figure(f"{AT_ONCE} prepared at once", many / one, "x one", MAX_RATIO, one)


def _medians(rounds: list[tuple[int, list[float]]], wanted: int) -> tuple[float, float]:
    """Return the medians of seconds and of processor seconds of the rounds of so many."""
    seconds, cpu = zip(*(taken for count, taken in rounds if count == wanted), strict=True)
    return statistics.median(seconds), statistics.median(cpu)


def main() -> int:
    """Measure the median of a few rehearsals, and of a few preparations."""
    runs = [rehearse() for _ in range(ROUNDS)]
    figures = [
        Figure(name, statistics.median(float(run[name]) for run in runs), "s", goal) for name, goal in GOALS.items()
    ]
    figures.append(Figure("residue", float(max(len(run["residue"]) for run in runs)), "rows", 0))
    return report("rehearse", [*figures, prepare_many()], peer="one, s")
