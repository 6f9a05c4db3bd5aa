"""When Python looks for garbage in cycles: among young objects only, and at all that a cluster has made once an hour.

Nobody is answered during a look. One at everything lasts a second where a cluster has ten thousand pods, and finds
next to nothing: what a store holds has no cycles and goes by its reference counts. What was there before the first
cluster is never looked at again (``gc.freeze``), so that forked processes go on sharing its memory.
"""

from __future__ import annotations

import gc

from kubesim.clock import Clock, Timer

YOUNG, SECOND, NEVER = 5_000, 5, 1_000_000
"""New objects until a look at the youngest, such looks until one at the next, and such until one at all others."""
HOUR_S = 3600.0


def spare_the_old() -> None:
    """Leave alone from now on what there is already, and look at the rest seldom."""
    gc.freeze()
    gc.set_threshold(YOUNG, SECOND, NEVER)
    gc.enable()


class Sweeper:
    """Collects what young looks have missed, every hour."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer: Timer = clock.call_later(HOUR_S, self._sweep)

    def stop(self) -> None:
        """Sweep no more."""
        self._timer.cancel()

    def _sweep(self) -> None:
        gc.collect()
        self._timer = self._clock.call_later(HOUR_S, self._sweep)
