"""Figures beside their goals and beside a named peer in the same run, printed and kept as JSON."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True)
class Figure:
    """A measured value, the most (or with ``at_least`` the least) it may be, and the value of a peer, if any."""

    name: str
    value: float
    unit: str
    goal: float
    peer: float | None = None
    at_least: bool = False

    @property
    def met(self) -> bool:
        """Return whether the value is within its goal."""
        return self.value >= self.goal if self.at_least else self.value <= self.goal

    def row(self) -> tuple[str, ...]:
        """Return what is printed."""
        peer = "" if self.peer is None else f"{self.peer:.3f}"
        goal = f"{'>=' if self.at_least else '<='} {self.goal:g}"
        return self.name, f"{self.value:.3f}", self.unit, goal, "ok" if self.met else "MISSED", peer


def report(name: str, figures: list[Figure], peer: str = "") -> int:
    """Print a table, write ``results/NAME.json``, and return how many goals were missed; ``peer`` is a heading."""
    _print([("", "measured", "", "goal", "", peer), *(figure.row() for figure in figures)])
    RESULTS.mkdir(exist_ok=True)
    body = {
        "name": name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "peer": peer,
        "figures": [{**asdict(figure), "met": figure.met} for figure in figures],
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
    return sum(not figure.met for figure in figures)


def _print(rows: list[tuple[str, ...]]) -> None:
    """Print columns: names and units to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if index in (1, 5) else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())
