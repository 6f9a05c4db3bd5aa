"""One figure beside its goal, printed and kept as JSON."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True)
class Figure:
    """A measured value and the most it may be."""

    name: str
    value: float
    unit: str
    goal: float

    @property
    def met(self) -> bool:
        """Return whether the value is within its goal."""
        return self.value <= self.goal


def report(name: str, figures: list[Figure]) -> int:
    """Print a table, write ``results/NAME.json``, and return how many goals were missed."""
    width = max(len(figure.name) for figure in figures)
    for figure in figures:
        mark = "ok" if figure.met else "MISSED"
        print(f"{figure.name:<{width}}  {figure.value:>10.3f} {figure.unit:<4} goal <= {figure.goal:g}  {mark}")
    RESULTS.mkdir(exist_ok=True)
    body = {
        "name": name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "figures": [{**asdict(figure), "met": figure.met} for figure in figures],
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
    return sum(not figure.met for figure in figures)
