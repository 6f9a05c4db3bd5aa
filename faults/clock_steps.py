"""Notices when somebody sets the machine's clock, so that deadlines keep their length.

A deadline is a time of day. A machine whose clock is put an hour on would take every fault away in the middle of its
interview, and an hour back would leave it for an hour more. So whoever reverts what is overdue compares the time of
day with a clock that nobody can set.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

SMALLEST = timedelta(seconds=30)  # what is less is the daily keeping of time


def steady_s() -> float:
    """Return seconds that only ever go on; where the system can tell, those count in which it slept."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


@dataclass(slots=True)
class ClockSteps:
    """How far the clock was set, and which runs had their deadline before that.

    ``newest`` returns the id of the newest run. Steps are remembered for as long as the process lives.
    """

    now: Callable[[], datetime]
    newest: Callable[[], int]
    steady: Callable[[], float] = steady_s
    _last: tuple[datetime, float] | None = None
    _steps: list[tuple[timedelta, int]] = field(default_factory=list)

    def look(self) -> datetime:
        """Return the time of day, after noting whether it was set since the last look."""
        now, steady = self.now(), self.steady()
        if self._last is not None:
            step = now - self._last[0] - timedelta(seconds=steady - self._last[1])
            if abs(step) >= SMALLEST:
                self._steps.append((step, self.newest()))
        self._last = (now, steady)
        return now

    def since(self, run_id: int) -> timedelta:
        """Return how far the clock was set on (negative: back) after the run was planned."""
        return sum((step for step, newest in self._steps if run_id <= newest), timedelta())
