"""The open pages of one web process, told to Redis for as long as they are open: all of them in one round trip."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from sessions import clock, presence
from sessions.presence import Connection


class Attendance:
    """The connections of one event loop, and the task that says again that they are open."""

    def __init__(self) -> None:
        self._open: set[Connection] = set()
        self._came: set[Connection] = set()
        self._went: set[Connection] = set()
        self._telling: asyncio.Task[None] | None = None
        self._repeating: asyncio.Task[None] | None = None

    def enter(self, connection: Connection) -> None:
        """Say from now on that a connection is open."""
        self._open.add(connection)
        self._came.add(connection)
        self._tell_soon()
        if self._repeating is None:
            self._repeating = asyncio.create_task(self._say_again())

    async def leave(self, connection: Connection) -> None:
        """Say that a connection has closed; returns once it was said."""
        self._open.discard(connection)
        self._came.discard(connection)
        self._went.add(connection)
        if not self._open and self._repeating is not None:
            self._repeating.cancel()
            self._repeating = None
        await asyncio.shield(self._tell_soon())

    def _tell_soon(self) -> asyncio.Task[None]:
        """Tell what is new; all that comes while Redis is told shares the next round trip."""
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell())
        return self._telling

    async def _tell(self) -> None:
        while self._came or self._went:
            came, went = self._came, self._went
            self._came, self._went = set(), set()
            await asyncio.to_thread(presence.tell, came, went, clock.now())

    async def _say_again(self) -> None:
        while True:
            await asyncio.sleep(presence.REPEAT_S)
            self._came |= self._open
            self._tell_soon()


_attendances: WeakKeyDictionary[asyncio.AbstractEventLoop, Attendance] = WeakKeyDictionary()


def current() -> Attendance:
    """Return the attendance of the running event loop; a web process has one."""
    return _attendances.setdefault(asyncio.get_running_loop(), Attendance())
