"""Waits for what passes by itself: a run that somebody else is busy with, a cluster that is being started again."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from faults.clock import Clock, RealClock
from faults.errors import ClusterError, LeaseHeld

PATIENCE_SECONDS = 5.0
LOOK_SECONDS = 0.05
AGAIN_SECONDS = 0.3  # a cluster that does not answer is not asked as often as a lease


def patiently(act: Callable[[], object], clock: Clock | None = None) -> None:
    """Call ``act`` until it raises neither LeaseHeld nor a retryable ClusterError, for five seconds at most."""
    clock, end = clock or RealClock(), monotonic() + PATIENCE_SECONDS
    while monotonic() < end:
        try:
            act()
        except LeaseHeld:
            clock.wait(LOOK_SECONDS)
        except ClusterError as exc:
            if not exc.retryable:
                raise
            clock.wait(AGAIN_SECONDS)
        else:
            return
    act()
