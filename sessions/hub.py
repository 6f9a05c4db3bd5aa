"""One subscription to the panels for each web process, and the fan-out to its browsers.

However many browsers watch, a frame crosses Redis once for each process. A browser that reads slowly keeps only the
newest frame of each panel; its sequence numbers then show a gap, and it fetches the snapshot.
"""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from redis.exceptions import RedisError

from sessions import live

log = logging.getLogger(__name__)
PAUSE_S = (0.25, 5.0)


@dataclass(frozen=True, slots=True)
class Audience:
    """Whose frames a browser gets: one session, one role. Roles never mix."""

    session: str
    role: str


class Feed:
    """What one browser has yet to get: at most one frame for each panel, oldest first."""

    def __init__(self, audience: Audience) -> None:
        self.audience = audience
        self._frames: dict[str, str] = {}
        self._ready = asyncio.Event()

    def put(self, panel: str, html: str) -> None:
        """Take a frame; an older one of the same panel that was not sent is dropped."""
        self._frames.pop(panel, None)
        self._frames[panel] = html
        self._ready.set()

    async def next(self) -> str:
        """Wait for the next frame and return its HTML."""
        await self._ready.wait()
        panel = next(iter(self._frames))
        html = self._frames.pop(panel)
        if not self._frames:
            self._ready.clear()
        return html


class Hub:
    """The subscription of one event loop; it lives while somebody listens."""

    def __init__(self) -> None:
        self._feeds: dict[Audience, set[Feed]] = {}
        self._task: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()

    async def subscribe(self, audience: Audience) -> Feed:
        """Return a feed of an audience's frames from now on; waits until it stands, or has failed once."""
        feed = Feed(audience)
        self._feeds.setdefault(audience, set()).add(feed)
        if self._task is None or self._task.done():
            self._listening = asyncio.Event()
            self._task = asyncio.create_task(self._listen())
        await self._listening.wait()
        return feed

    async def unsubscribe(self, feed: Feed) -> None:
        """Forget a feed; with the last one the subscription ends, too."""
        feeds = self._feeds.get(feed.audience, set())
        feeds.discard(feed)
        if not feeds:
            self._feeds.pop(feed.audience, None)
        if not self._feeds and self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def deliver(self, message: dict[str, Any]) -> None:
        """Hand a frame to everybody it is for."""
        for feed in self._feeds.get(Audience(message["session"], message["role"]), ()):
            feed.put(message["panel"], message["html"])

    async def _listen(self) -> None:
        """Receive for ever. While Redis is away, browsers keep their sockets and the pages show their age."""
        pause = PAUSE_S[0]
        while True:
            try:
                await self._receive()
            except (RedisError, OSError) as exc:
                log.warning("Redis cannot be reached, panels stand still: %s", exc)
            self._listening.set()
            pause = min(PAUSE_S[1], random.uniform(PAUSE_S[0], pause * 3))
            await asyncio.sleep(pause)

    async def _receive(self) -> None:
        layer = live.channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(live.GROUP, channel)
        self._listening.set()
        try:
            while True:
                message = await layer.receive(channel)
                if message["type"] == live.MESSAGE_TYPE:
                    self.deliver(message)
        finally:
            await layer.group_discard(live.GROUP, channel)


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def current() -> Hub:
    """Return the hub of the running event loop; a web process has one."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())
