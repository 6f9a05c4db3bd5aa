"""The whole interview with no person, against the goals of a first release."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from typing import Any

from bench.figures import Figure, report

ROUNDS = 3
GOALS = {"symptom_s": 2.0, "reverted_s": 5.0}


def rehearse() -> dict[str, Any]:
    """Run one rehearsal and return its JSON object."""
    command = [sys.executable, "-W", "ignore", "manage.py", "rehearse", "--json"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(answer.stdout)
    return result


def main() -> int:
    """Measure the median of a few rehearsals."""
    runs = [rehearse() for _ in range(ROUNDS)]
    figures = [
        Figure(name, statistics.median(float(run[name]) for run in runs), "s", goal) for name, goal in GOALS.items()
    ]
    figures.append(Figure("residue", float(max(len(run["residue"]) for run in runs)), "rows", 0))
    return report("rehearse", figures)
