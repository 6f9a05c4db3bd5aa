"""Time for a process that is run again after a restart: its past passes at once, then it keeps real time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from kubesim.clock import Clock, ManualClock, Timer

TURNS = 50
"""How far a process gets between two of its timers at most: many are run again at once, and nobody waits for long."""
LONGEST_S = 6 * 3600.0
"""A process that has run for longer begins its second life so long ago."""


class ReplayClock:
    """Begins at ``start``, in the past of ``clock``; ``catch_up`` runs everything that was due until now."""

    def __init__(self, clock: Clock, start: datetime) -> None:
        self._clock = clock
        self._past: ManualClock | None = ManualClock(start)

    async def catch_up(self) -> None:
        """Let the past pass. What is still to come goes on with the real clock."""
        past = self._past
        assert past is not None
        await past.advance((self._clock.now() - past.now()).total_seconds(), TURNS)
        self._past = None
        for seconds, call in past.drain():
            self._clock.call_later(seconds, call)

    def now(self) -> datetime:
        """Return the time that the process has reached."""
        return (self._past or self._clock).now()

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Run ``call`` once, ``seconds`` from now."""
        return (self._past or self._clock).call_later(seconds, call)

    async def sleep(self, seconds: float) -> None:
        """Return ``seconds`` from now."""
        await (self._past or self._clock).sleep(seconds)
