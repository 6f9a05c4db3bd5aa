"""When Python looks for garbage in cycles: among young objects only, and at all of them hardly ever.

Nobody is answered during a look. One at everything lasts a second where a host has hundreds of clusters or a cluster
ten thousand pods, and finds next to nothing: what a store holds has no cycles and goes by its reference counts. So
what has lived through two looks is set aside (``gc.freeze``), and only ``sweep`` looks there: after clusters were
dropped, and once an hour.
"""

from __future__ import annotations

import gc
from typing import Any

from kubesim.clock import Clock, Timer

YOUNG, SECOND, NEVER = 5_000, 5, 1_000_000
"""New objects until a look at the youngest, such looks until one at the next, and such until one at all others."""
HOUR_S, MINUTE_S = 3600.0, 60.0
MANY = 20


def spare_the_old() -> None:
    """Set aside from now on what has lived for a while."""
    gc.set_threshold(YOUNG, SECOND, NEVER)
    gc.callbacks.append(_set_aside)
    gc.enable()


def sweep() -> None:
    """Look at everything."""
    gc.unfreeze()
    gc.collect()
    if _set_aside in gc.callbacks:
        gc.freeze()


def _set_aside(phase: str, info: dict[str, Any]) -> None:
    if phase == "stop" and info["generation"] == 1:
        gc.freeze()


class Sweeper:
    """Sweeps a minute after something large was dropped, at once after many such, and every hour."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._dropped = 0
        self._timer: Timer = clock.call_later(HOUR_S, self._sweep)

    def dropped(self) -> None:
        """Note that something large is gone."""
        self._dropped += 1
        if self._dropped == 1:
            self._plan(MINUTE_S)
        elif self._dropped == MANY:
            self._sweep()

    def stop(self) -> None:
        """Sweep no more."""
        self._timer.cancel()

    def _plan(self, seconds: float) -> None:
        self._timer.cancel()
        self._timer = self._clock.call_later(seconds, self._sweep)

    def _sweep(self) -> None:
        self._dropped = 0
        sweep()
        self._plan(HOUR_S)
