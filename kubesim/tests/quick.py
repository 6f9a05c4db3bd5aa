"""An event loop on which waiting costs nothing: when there is nothing to do, its time leaps to what comes next.

For tests that want real servers and real clients, all on this one loop, and whose time is spent in waiting. What a
thread does is waited for; another process, or a loop in another thread, would be left behind.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE_S = 0.001
"""How long sockets on loopback may take to pass on what has been written."""
LEAP_S = 1.0
"""The longest leap, after which sockets are looked at again."""


class _Leaping(selectors.DefaultSelector):
    """Waits a moment instead of as long as it is told, and counts the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.leapt = 0.0
        self.threads = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= PATIENCE_S or self.threads:
            return super().select(timeout)
        ready = super().select(PATIENCE_S)
        if not ready:
            self.leapt += min(timeout - PATIENCE_S, LEAP_S)
        return ready


class QuickLoop(asyncio.SelectorEventLoop):
    """Runs as any loop does, but never idly."""

    def __init__(self) -> None:
        self._leaping = _Leaping()
        super().__init__(self._leaping)

    def time(self) -> float:
        """Return the machine's monotonic time and all that was leapt over."""
        return super().time() + self._leaping.leapt

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run it in a thread; no time is leapt over before it is done."""
        future = super().run_in_executor(executor, func, *args)
        self._leaping.threads += 1
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _: asyncio.Future[Any]) -> None:
        self._leaping.threads -= 1


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end, as ``asyncio.run`` does."""
    with asyncio.Runner(loop_factory=QuickLoop) as runner:
        return runner.run(main)
