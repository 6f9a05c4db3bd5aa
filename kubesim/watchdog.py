"""Ends a cluster's process that hangs, and says how soon it may be started again."""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
from collections.abc import Iterator

from kubesim.processes import Process

TICK_S = 1.0
MAX_SILENT_TICKS = 5
"""Looks at a heartbeat that has not moved, a second each. Looks are counted, not seconds: where the whole machine
has slept, or somebody has stopped all of us, no look was taken."""
PAUSES = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
STAYED_UP_S = 60.0
log = logging.getLogger("kubesim.watchdog")


class RestartPauses:
    """Seconds before each new start: longer each time, and short again after a process that stayed up."""

    def __init__(self) -> None:
        self._pauses = self._fresh()
        self._last = 0.0

    def next(self, now: float) -> float:
        """Return the pause before the start of what has ended now."""
        if now - self._last > STAYED_UP_S:
            self._pauses = self._fresh()
        pause = next(self._pauses)
        self._last = now + pause
        return pause

    @staticmethod
    def _fresh() -> Iterator[float]:
        return itertools.chain(PAUSES, itertools.repeat(PAUSES[-1]))


class Watchdog:
    """Watches one process."""

    def __init__(self, name: str, process: Process) -> None:
        self._name = name
        self._process = process

    async def watch(self) -> None:
        """Look at the process every second, and kill it where it is to end."""
        silent, beats = 0, 0
        while silent < MAX_SILENT_TICKS:
            await asyncio.sleep(TICK_S)
            if self._process.ended.done():
                return
            found = self._process.page.beats
            silent = silent + 1 if found == beats else 0
            beats = found
        log.error("%s has not answered for %s s: killing its process", self._name, MAX_SILENT_TICKS)
        self._process.signal(signal.SIGKILL)
