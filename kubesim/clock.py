"""Time is an argument. Nothing in kubesim reads the machine's clock except through a ``Clock``."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Timer(Protocol):
    """A call that has been put off."""

    def cancel(self) -> None:
        """Drop the call; nothing happens where it has run already."""


class Clock(Protocol):
    """What kubesim needs of time."""

    def now(self) -> datetime:
        """Return the current time in UTC, with microseconds."""

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Run ``call`` once, ``seconds`` from now."""

    async def sleep(self, seconds: float) -> None:
        """Return ``seconds`` from now."""


class RealClock:
    """The machine's time, read once and carried on by the event loop's monotonic clock.

    ``factor`` lets a demonstration run faster: 60 makes a minute of the cluster last a second.
    """

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor
        self._loop = asyncio.get_running_loop()
        self._start = datetime.now(UTC)
        self._zero = self._loop.time()

    def now(self) -> datetime:
        """Return the start plus the monotonic time since, times the factor."""
        return self._start + timedelta(seconds=(self._loop.time() - self._zero) * self.factor)

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Run ``call`` on the event loop."""
        return self._loop.call_later(max(seconds, 0) / self.factor, call)

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(max(seconds, 0) / self.factor)


class _ManualTimer:
    """An entry of the manual clock's heap."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        """Forget the call."""
        self.call = None

    def run(self) -> None:
        """Make the call, unless it is forgotten."""
        if self.call is not None:
            self.call()


class ManualClock:
    """Time that moves only when a test says so, stopping at every timer on the way."""

    def __init__(self, start: datetime = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)) -> None:
        self._now = start
        self._heap: list[tuple[datetime, int, _ManualTimer]] = []
        self._order = itertools.count()

    def now(self) -> datetime:
        """Return the time that the test has reached."""
        return self._now

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Queue ``call`` for ``advance``."""
        timer = _ManualTimer(call)
        due = self.now() + timedelta(seconds=max(seconds, 0))
        heapq.heappush(self._heap, (due, next(self._order), timer))
        return timer

    async def sleep(self, seconds: float) -> None:
        """Wait until a test has advanced far enough."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, lambda: None if done.done() else done.set_result(None))
        try:
            await done
        finally:
            timer.cancel()

    async def advance(self, seconds: float, turns: int = 500, goes_on: Callable[[], bool] = lambda: True) -> float:
        """Move on while ``goes_on``, running timers and letting what they woke settle; return what was skipped."""
        await settle(turns)
        began, end = self._now, self.now() + timedelta(seconds=seconds)
        while goes_on() and self._heap and self._heap[0][0] <= end:
            due, _, timer = heapq.heappop(self._heap)
            self._reach(due)
            if timer.call is not None:
                timer.run()
                await settle(turns)
        if goes_on():
            self._reach(end)
        return (self._now - began).total_seconds()

    def _reach(self, moment: datetime) -> None:
        """Move on to a moment; nothing where it is over."""
        self._now = max(self._now, moment)

    def drain(self) -> list[tuple[float, Callable[[], None]]]:
        """Give up the timers that are left: the seconds until each is due, and its call."""
        waiting = sorted(self._heap, key=lambda item: item[:2])
        left = [((due - self.now()).total_seconds(), timer.run) for due, _, timer in waiting]
        self._heap.clear()
        return left


class SkippingClock(ManualClock):
    """The machine's time, which goes on by itself and can be moved on as well: a proof waits for no back-off."""

    def __init__(self) -> None:
        super().__init__(datetime.now(UTC))
        self._loop = asyncio.get_running_loop()
        self._zero = self._loop.time()
        self._alarm: asyncio.TimerHandle | None = None

    def now(self) -> datetime:
        """Return the start plus the monotonic time since, and all that was skipped."""
        return self._now + timedelta(seconds=self._loop.time() - self._zero)

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Queue ``call`` for its time, whether that comes or is skipped to."""
        timer = super().call_later(seconds, call)
        self._set_alarm()
        return timer

    def _reach(self, moment: datetime) -> None:
        self._now += max(moment - self.now(), timedelta())
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._heap:
            seconds = (self._heap[0][0] - self.now()).total_seconds()
            self._alarm = self._loop.call_later(max(seconds, 0), self._run_due)

    def _run_due(self) -> None:
        while self._heap and self._heap[0][0] <= self.now():
            self._loop.call_soon(heapq.heappop(self._heap)[2].run)
        self._set_alarm()


OUTSIDE: set[asyncio.Future[Any]] = set()
"""Computations of threads and processes, unseen by the event loop: each ends at the next request."""


async def settle(turns: int = 500) -> None:
    """Let the event loop run everything that is ready, and what that makes ready, at most ``turns`` deep.

    It stops at the first turn in which nothing else is waiting to run. asyncio has no public way to ask that; on a
    loop without the attribute every turn is taken.
    """
    ready = getattr(asyncio.get_running_loop(), "_ready", (None,))
    for _ in range(turns):
        await asyncio.sleep(0)
        if not ready and not await _outside():
            return


async def outside(work: Coroutine[Any, Any, T]) -> T:
    """Await what another process computes for this event loop."""
    computing = asyncio.ensure_future(work)
    OUTSIDE.add(computing)
    computing.add_done_callback(OUTSIDE.discard)
    return await computing


async def _outside() -> bool:
    """Wait for one of the threads and processes that compute for this event loop; False where none does."""
    loop = asyncio.get_running_loop()
    computing = [each for each in OUTSIDE if each.get_loop() is loop and not each.done()]
    if computing:
        await asyncio.wait(computing, return_when=asyncio.FIRST_COMPLETED)
    return bool(computing)


async def first(*works: Awaitable[Any]) -> list[asyncio.Future[Any]]:
    """Wait until one of several things is done, and give up the others; returns all of them."""
    tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks
    finally:
        for task in tasks:
            task.cancel()


class TooSlow(Exception):
    """An answer that does not come in time."""


async def in_time(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Wait for work on the cluster's clock. Raises ``TooSlow``."""
    doing, late = asyncio.ensure_future(work), asyncio.ensure_future(clock.sleep(seconds))
    try:
        either: list[asyncio.Future[Any]] = [doing, late]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise TooSlow
        return doing.result()
    finally:
        late.cancel()
        if not doing.done():
            doing.cancel()
            await asyncio.wait([doing])
        if not doing.cancelled():
            doing.exception()  # nobody else asks for it where the caller is cancelled
