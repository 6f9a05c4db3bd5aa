"""Waits for a run that somebody else is busy with for a moment, such as telling its cluster a new deadline."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from faults.clock import Clock, RealClock
from faults.errors import LeaseHeld

PATIENCE_SECONDS = 5.0
LOOK_SECONDS = 0.05


def patiently(act: Callable[[], object], clock: Clock | None = None) -> None:
    """Call ``act`` until it no longer raises LeaseHeld; let that pass after five seconds."""
    clock, end = clock or RealClock(), monotonic() + PATIENCE_SECONDS
    while monotonic() < end:
        try:
            act()
        except LeaseHeld:
            clock.wait(LOOK_SECONDS)
        else:
            return
    act()
