"""One subscription to the frames for each web process, and the fan-out to its browsers.

However many browsers watch, a frame crosses Redis once for each process, is encoded once, and costs one write for
each browser that keeps up, without a turn of a task. A browser that has missed something (it was away, it reads
slowly, Redis was away) is sent the screen's snapshot, which is fetched once for all who need it. A heartbeat tells
every browser whether what it shows is kept current.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from django.conf import settings
from redis.asyncio import Redis
from redis.exceptions import RedisError

from sessions import frames
from sessions.frames import Snapshot
from sessions.shared_frames import Write, encode, write_nothing

log = logging.getLogger(__name__)
PAUSE_S = (0.25, 5.0)
BEAT_S = 2.0
REDIS_TIMEOUT_S = 1.0
MAX_BACKLOG = 64  # frames; a browser that is further behind gets the snapshot instead
IN_SYNC, STALE = '{"beat":true}', '{"beat":false}'


@dataclass(frozen=True, slots=True)
class Audience:
    """Whose frames a browser gets: one session, one role. Roles never mix."""

    session: str
    role: str


class Feed:
    """Frames that one browser has yet to get. ``seq`` is the newest frame it has or will get, as far as is known.

    A frame that is next for a browser which waits for it is written at once; else its task asks with ``next``.
    """

    def __init__(self, audience: Audience, seq: int = -1, write: Write = write_nothing) -> None:
        self.audience = audience
        self._write = write
        self._is_sending = True  # until ``next`` is called; what it returned goes out first
        self.seq = seq
        self.behind = True  # until it was compared with the newest snapshot
        self._backlog: deque[tuple[int, str]] = deque(maxlen=MAX_BACKLOG)
        self._beat = ""
        self._ready = asyncio.Event()
        self._ready.set()

    def put(self, seq: int, text: str, encoded: bytes) -> None:
        """Take a frame. One that does not follow the last, or is one too many, puts the browser behind."""
        if seq == self.seq + 1 and self._is_waiting and self._write(encoded):
            self.seq = seq
            return
        newest = self._backlog[-1][0] if self._backlog else self.seq
        if not self.behind and (seq != newest + 1 or len(self._backlog) == MAX_BACKLOG):
            self.fall_behind()
        self._backlog.append((seq, text))
        self._ready.set()

    def beat(self, text: str, encoded: bytes) -> None:
        """Take a heartbeat: the newest one only, and after every frame."""
        if not (self._is_waiting and self._write(encoded)):
            self._beat = text
            self._ready.set()

    def fall_behind(self) -> None:
        """Ask for the snapshot."""
        self.behind = True
        self._ready.set()

    def catch_up(self, snapshot: Snapshot) -> bool:
        """Continue from a snapshot; return whether the browser needs it."""
        needs = snapshot.seq != self.seq
        while self._backlog and self._backlog[0][0] <= snapshot.seq:
            self._backlog.popleft()
        self.seq = snapshot.seq
        numbers = [seq for seq, _ in self._backlog]
        self.behind = numbers != list(range(self.seq + 1, self.seq + 1 + len(numbers)))
        if self.behind:
            self._backlog.clear()
        self._rest()
        return needs

    def hold(self) -> None:
        """Wait for the next frame or heartbeat before the snapshot is asked for again."""
        self._ready.clear()

    async def next(self) -> str | None:
        """Wait for the next text to be sent; None means that the snapshot has to come first."""
        self._is_sending = False
        await self._ready.wait()
        self._is_sending = True
        if self.behind and not self._beat:
            return None
        if self._backlog and not self.behind:
            self.seq, text = self._backlog.popleft()
        else:
            text, self._beat = self._beat, ""
        self._rest()
        return text

    @property
    def _is_waiting(self) -> bool:
        """Whether the browser has all there is, so that what comes now is next."""
        return not (self.behind or self._backlog or self._beat or self._is_sending)

    def _rest(self) -> None:
        if not (self._backlog or self._beat or self.behind):
            self._ready.clear()


@dataclass(slots=True)
class _Listeners:
    """The browsers of one audience, the newest frame heard of, and the snapshot they share."""

    feeds: set[Feed] = field(default_factory=set)
    seq: int | None = None
    seq_at_last_beat: int | None = None
    snapshot: Snapshot | None = None
    message: str = ""
    fetching: asyncio.Task[Snapshot | None] | None = None


class Hub:
    """The subscription of one event loop; it lives while somebody listens."""

    def __init__(self) -> None:
        self._audiences: dict[Audience, _Listeners] = {}
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._listening = asyncio.Event()
        self._redis: Redis[Any] | None = None

    async def subscribe(self, audience: Audience, seq: int = -1, write: Write = write_nothing) -> Feed:
        """Return a feed for a browser that shows frame ``seq``; waits until the subscription stands or has failed."""
        feed = Feed(audience, seq, write)
        self._audiences.setdefault(audience, _Listeners()).feeds.add(feed)
        if not self._tasks:
            self._listening = asyncio.Event()
            self._redis = Redis.from_url(
                settings.REDIS_URL, socket_timeout=REDIS_TIMEOUT_S, socket_connect_timeout=REDIS_TIMEOUT_S
            )
            self._tasks = (asyncio.create_task(self._listen()), asyncio.create_task(self._beat_for_ever()))
        await self._listening.wait()
        return feed

    async def unsubscribe(self, feed: Feed) -> None:
        """Forget a feed; with the last one the subscription ends, too."""
        listeners = self._audiences.get(feed.audience, _Listeners())
        listeners.feeds.discard(feed)
        if not listeners.feeds:
            self._audiences.pop(feed.audience, None)
            await _end(listeners.fetching)
        if not self._audiences and self._tasks:
            tasks, self._tasks = self._tasks, ()
            redis, self._redis = self._redis, None
            await _end(*tasks)
            if redis is not None:
                await redis.connection_pool.disconnect()

    def deliver(self, audience: Audience, seq: int, text: str) -> None:
        """Hand a frame to everybody it is for."""
        listeners = self._audiences.get(audience)
        if listeners is None:
            return
        listeners.seq = seq
        encoded = encode(text)
        for feed in listeners.feeds:
            feed.put(seq, text, encoded)

    async def catch_up(self, feed: Feed) -> str:
        """Return the snapshot where the browser needs it, else an empty text; Redis being away means later."""
        listeners = self._audiences.get(feed.audience)
        if listeners is None:
            return ""
        snapshot = await self._snapshot(feed.audience, listeners)
        if snapshot is None:
            feed.hold()
            return ""
        return listeners.message if feed.catch_up(snapshot) else ""

    async def beat(self) -> None:
        """Send a heartbeat to everybody, and the snapshot to those whose last frame got lost on its way."""
        known = await self._numbers()
        text = STALE if known is None else IN_SYNC
        encoded = encode(text)
        for audience, listeners in self._audiences.items():
            lost = known is not None and listeners.seq_at_last_beat == listeners.seq != known.get(audience)
            listeners.seq_at_last_beat = listeners.seq
            if lost:
                listeners.seq = listeners.snapshot = None
            for feed in listeners.feeds:
                if lost:
                    feed.fall_behind()
                feed.beat(text, encoded)

    async def _snapshot(self, audience: Audience, listeners: _Listeners) -> Snapshot | None:
        """Return the newest snapshot, fetched once however many ask."""
        if listeners.snapshot is not None and listeners.snapshot.seq == listeners.seq:
            return listeners.snapshot
        if listeners.fetching is None:
            listeners.fetching = asyncio.create_task(self._fetch(audience, listeners))
        return await asyncio.shield(listeners.fetching)

    async def _fetch(self, audience: Audience, listeners: _Listeners) -> Snapshot | None:
        try:
            if self._redis is None:
                return None
            found: Any = await self._redis.hgetall(frames.screen_key(audience.session, audience.role))
            snapshot = frames.parse_snapshot(found)
        except (RedisError, OSError):
            return None
        finally:
            listeners.fetching = None
        listeners.snapshot, listeners.message = snapshot, snapshot.message()
        if listeners.seq is None:
            listeners.seq = snapshot.seq
        return snapshot

    async def _numbers(self) -> dict[Audience, int] | None:
        """Return the newest number of every screen; None where Redis is away or no observer gives a sign of life."""
        audiences = list(self._audiences)
        if self._redis is None:
            return None
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.exists(frames.OBSERVER_KEY)
                for audience in audiences:
                    pipe.hget(frames.screen_key(audience.session, audience.role), "seq")
                observed, *numbers = await pipe.execute()
        except (RedisError, OSError):
            return None
        known = {audience: int(number or 0) for audience, number in zip(audiences, numbers, strict=True)}
        return known if observed else None

    async def _beat_for_ever(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            await self.beat()

    async def _listen(self) -> None:
        """Receive for ever. While Redis is away, browsers keep their sockets and are told so."""
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
        waiting = Redis.from_url(settings.REDIS_URL, socket_connect_timeout=REDIS_TIMEOUT_S)
        async with waiting, waiting.pubsub() as channel:
            await channel.subscribe(frames.CHANNEL)
            self._start_anew()
            async for message in channel.listen():
                if message["type"] == "message":
                    uuid, role, seq, text = frames.decode(message["data"])
                    self.deliver(Audience(uuid, role), seq, text)
                else:
                    self._listening.set()

    def _start_anew(self) -> None:
        """Whatever was published while nobody listened is missing: compare every browser with the snapshot."""
        for listeners in self._audiences.values():
            listeners.seq = listeners.snapshot = None
            for feed in listeners.feeds:
                feed.fall_behind()


async def _end(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks, and wait until none of them can open a connection any more."""
    begun = [task for task in tasks if task is not None]
    for task in begun:
        task.cancel()
    await asyncio.gather(*begun, return_exceptions=True)


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def current() -> Hub:
    """Return the hub of the running event loop; a web process has one."""
    return _hubs.setdefault(asyncio.get_running_loop(), Hub())
