"""Who computes and for how long: the steps of a process are timed, and it waits where its container had its share.

Counted is this thread's own time, so that a machine which others keep busy takes nothing from a container's share.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Generator
from typing import Any

from kubesim.shell.share import Allowance


class Pacer:
    """Counts the computing of one process, which is all that happens while it has the event loop."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._resumed = 0.0

    def resume(self) -> None:
        """Note that the process has the event loop from now on."""
        self._resumed = time.thread_time()

    def settle(self) -> None:
        """Count what the process has computed since."""
        before, self._resumed = self._resumed, time.thread_time()
        self._allowance.spend(time.perf_counter(), self._resumed - before)

    def late(self) -> bool:
        """Tell whether it has to wait."""
        return self._allowance.wait(time.perf_counter()) > 0

    async def rest(self) -> None:
        """Let others have the event loop, and wait where there was more than the share."""
        self.settle()
        await asyncio.sleep(self._allowance.wait(time.perf_counter()))


class Steps(Coroutine[Any, Any, None]):
    """A coroutine whose steps are timed."""

    def __init__(self, steps: Coroutine[Any, Any, None], pacer: Pacer) -> None:
        self._steps = steps
        self._pacer = pacer

    def send(self, value: Any) -> Any:
        """Go on."""
        self._pacer.resume()
        try:
            return self._steps.send(value)
        finally:
            self._pacer.settle()

    def throw(self, *error: Any) -> Any:
        """Go on with an error."""
        self._pacer.resume()
        try:
            return self._steps.throw(*error)
        finally:
            self._pacer.settle()

    def close(self) -> None:
        """End without going on."""
        self._steps.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._steps.__await__()
