"""Loads: what a process does to a GPU, as a function of the seconds since it started.

Nothing ticks. A value is worked out when somebody asks for it, so an idle cluster with a thousand busy GPUs costs
nothing, and the same seed gives the same curve to two candidates.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kubesim import data

Range = tuple[float, float]
_FILE = Path(__file__).with_name("loads.yaml")


@dataclass(frozen=True, slots=True)
class Load:
    """One kind of work; ``loads.yaml`` has the units."""

    name: str
    util: Range
    memory_util: Range
    power: Range
    sm: Range
    tensor: Range
    dram: Range
    pcie: Range
    nvlink: Range
    period: float
    ramp: float
    memory: float = 0.0
    mib: int = 0

    def held(self, total_mib: int, elapsed_s: float) -> int:
        """Return the memory in MiB that it holds of ``total_mib``, ``elapsed_s`` after its start."""
        full = self.mib or self.memory * total_mib
        return int(full * warm(self, elapsed_s))

    def mean(self, span: Range) -> float:
        """Return the long mean of one of its ranges."""
        return (span[0] + span[1]) / 2


@cache
def loads() -> dict[str, Load]:
    """Return every load by name."""
    entries = data.read(_FILE)
    return {name: _load(name, entry) for name, entry in entries.items()}


def _load(name: str, entry: dict[str, object]) -> Load:
    return Load(name=name, **{key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()})  # type: ignore[arg-type]


def warm(load: Load, elapsed_s: float) -> float:
    """Return how far it has come up: 0 at the start, 1 once ``ramp`` is over."""
    return min(max(elapsed_s / load.ramp, 0.0), 1.0) if load.ramp else 1.0


def swing(span: Range, elapsed_s: float, period_s: float, seed: str) -> float:
    """Return a value within ``span`` that wanders smoothly, a new direction every ``period_s``/4."""
    low, high = span
    if low == high:
        return low
    step = elapsed_s / (period_s / 4)
    index, part = math.floor(step), step % 1
    eased = part * part * (3 - 2 * part)
    return low + (high - low) * (_noise(seed, index) * (1 - eased) + _noise(seed, index + 1) * eased)


def _noise(seed: str, index: int) -> float:
    """Return a number of 0 to 1 that depends on nothing but seed and index."""
    return zlib.crc32(f"{seed}/{index}".encode()) / 0xFFFFFFFF
