"""When a node is short of something: eviction signals, the thresholds of a kubelet's configuration, what meets them.

The rules and words are those of pkg/kubelet/eviction of Kubernetes 1.34.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kubesim import data
from kubesim.api import quantity
from kubesim.times import parse_go_duration

MEMORY, DISK, INODES, PIDS = "memory", "ephemeral-storage", "inodes", "pids"
PRESSURES = {MEMORY: "MemoryPressure", DISK: "DiskPressure", INODES: "DiskPressure", PIDS: "PIDPressure"}
"""What a node is short of -> the condition that says so."""
ALLOCATABLE = "allocatableMemory.available"
SIGNALS = {
    "memory.available": MEMORY,
    ALLOCATABLE: MEMORY,
    "nodefs.available": DISK,
    "nodefs.inodesFree": INODES,
    "imagefs.available": DISK,
    "imagefs.inodesFree": INODES,
    "containerfs.available": DISK,
    "containerfs.inodesFree": INODES,
    "pid.available": PIDS,
}
"""Signal -> what it measures."""
CONFIG: dict[str, Any] = data.table(__file__, "configuration.yaml")
"""A kubelet's configuration by default."""


class WrongConfig(ValueError):
    """A configuration with which a kubelet does not start; the message is the kubelet's."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity, or a share of a capacity."""

    quantity: str = ""
    percent: float = 0.0

    def of(self, capacity: int) -> int:
        """Return how much it is."""
        if self.quantity:
            return int(quantity.parse(self.quantity))
        return int(capacity * _single(_single(self.percent) / 100))

    def text(self, capacity: int) -> str:
        """Return how much it is, as messages tell it."""
        return quantity.canonical(self.quantity) if self.quantity else binary(self.of(capacity))


@dataclass(frozen=True, slots=True)
class Threshold:
    """Less of ``signal`` than ``value`` lets pods go."""

    signal: str
    value: Amount

    @property
    def resource(self) -> str:
        """What the node is short of where it is met."""
        return SIGNALS[self.signal]

    def met(self, seen: Mapping[str, Observation]) -> bool:
        """Whether there is less than that."""
        found = seen.get(self.signal)
        return found is not None and self.value.of(found.capacity) > found.available


@dataclass(frozen=True, slots=True)
class Observation:
    """How much of something is left, of how much."""

    available: int
    capacity: int


@dataclass(frozen=True, slots=True)
class Rules:
    """What a kubelet's configuration says of pressure."""

    thresholds: tuple[Threshold, ...]
    transition_s: float
    high: int
    low: int
    least_age_s: float


def _single(value: float) -> float:
    """Return a number in the precision in which a kubelet keeps it."""
    found: float = struct.unpack("f", struct.pack("f", value))[0]
    return found


def binary(amount: int) -> str:
    """Return an amount as Kubernetes writes quantities of bytes."""
    return quantity.write(Fraction(amount), "binary")


def rules(config: Mapping[str, Any]) -> Rules:
    """Return what a configuration (over the defaults) says. Raises ``WrongConfig``."""
    whole = {**CONFIG, **{name: value for name, value in config.items() if value is not None}}
    found = [*_thresholds(whole.get("evictionHard"))]
    if "pods" in whole["enforceNodeAllocatable"]:
        found += [Threshold(ALLOCATABLE, each.value) for each in found if each.signal == "memory.available"]
    return Rules(
        # what is short of memory is seen to first
        tuple(sorted(found, key=lambda each: each.resource != MEMORY)),
        seconds(whole["evictionPressureTransitionPeriod"]),
        int(whole["imageGCHighThresholdPercent"]),
        int(whole["imageGCLowThresholdPercent"]),
        seconds(whole["imageMinimumGCAge"]),
    )


def _thresholds(statements: Mapping[str, Any] | None) -> Iterable[Threshold]:
    for signal, text in (statements or {}).items():
        if signal not in SIGNALS:
            raise WrongConfig(f"unsupported eviction signal {signal}")
        if str(text) not in ("0%", "100%"):
            yield Threshold(signal, _amount(signal, str(text)))


def _amount(signal: str, text: str) -> Amount:
    try:
        if text.endswith("%"):
            percent = float(text.removesuffix("%"))
            if not 0 <= percent <= 100:
                raise WrongConfig(f"eviction percentage threshold {signal} must be <= 100%: {text}")
            return Amount(percent=percent)
        if quantity.parse(text) <= 0:
            raise WrongConfig(f"eviction threshold {signal} must be positive: {text}")
    except ValueError as error:
        raise WrongConfig(str(error)) from error
    return Amount(text)


def seconds(text: object) -> float:
    """Return a duration as Go writes it, in seconds. Raises ``WrongConfig``."""
    try:
        return parse_go_duration(str(text))
    except ValueError as error:
        raise WrongConfig(str(error)) from error
