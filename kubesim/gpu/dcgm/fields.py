"""The fields that dcgmi can show: by number, with long and short name (``fields.yaml``)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kubesim import data
from kubesim.gpu.readings import Reading, find


@dataclass(frozen=True, slots=True)
class Field:
    """One field; ``times``: what a share or an amount is multiplied by, None for a count."""

    name: str
    short: str
    at: str
    times: float | None = None
    unit: str = ""

    def get(self, reading: Reading) -> str:
        """Return what a device says."""
        value = find(reading, self.at)
        if self.times is not None:
            return f"{value * self.times:.3f}"
        return value.removeprefix("P") if isinstance(value, str) else str(round(value))


@cache
def fields() -> dict[int, Field]:
    """Return every field by its number."""
    return {number: Field(*row) for number, row in data.read(Path(__file__).with_name("fields.yaml")).items()}
