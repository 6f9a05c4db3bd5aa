"""One cluster under watch: a list+watch for each kind fills the cache. All clusters share one thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from datetime import datetime, timedelta
from functools import cache

from faults.errors import ClusterError, Unauthorized
from faults.kube.client import Kube
from faults.kube.watch import ListWatch, Pauses, Streams
from sessions import panels
from sessions.kinds import Kind
from sessions.observer.cache import Cache, OnChange

log = logging.getLogger(__name__)

PANEL_KINDS = panels.watched_kinds()
TIMEOUT_S = (1.0, 2.5)  # shorter than elsewhere: a server that hangs must show as stale within seconds
MAX_REPEAT_S = 1.0  # a refused request is repeated, one that timed out is a sign of silence


@cache
def shared_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop in which every cluster is watched; its thread starts with the first."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="watches", daemon=True).start()
    return loop


class ClusterWatch:
    """Keeps a ``Cache`` of a cluster current until it is closed, for everybody who listens. For any thread."""

    def __init__(self, kube: Kube, kinds: Iterable[Kind], now: Callable[[], datetime]) -> None:
        self.kube = Kube(kube.access, timeout=TIMEOUT_S, max_repeat_s=MAX_REPEAT_S, reaches_pods=kube.reaches_pods)
        self.kinds: frozenset[Kind] = frozenset()
        self._now = now
        self._probed_at: datetime | None = None
        self.cache = Cache((), now, self._tell)
        self._lock = threading.Lock()
        self._listeners: tuple[OnChange, ...] = ()
        self._pauses: dict[Kind, Pauses] = {}
        self._watches: list[ListWatch] = []
        self._tasks: dict[ListWatch, asyncio.Task[None]] = {}
        self._streams: Streams | None = None
        self._running: Future[None] | None = None
        self.accepts_us: bool | None = None
        """Whether the last probe's credentials were accepted; None before it, and where there was no answer."""
        self.include(PANEL_KINDS)
        self.include(kinds)

    def start(self) -> None:
        """Begin to list and watch, in the event loop that all clusters share."""
        self._running = asyncio.run_coroutine_threadsafe(self._run(), shared_loop())
        self._running.add_done_callback(_tell_why)

    def include(self, kinds: Iterable[Kind]) -> None:
        """Watch more kinds, from now on."""
        with self._lock:
            fresh = sorted(frozenset(kinds) - self.kinds)
            if not fresh:
                return
            self.cache.include(fresh)
            self._pauses |= {kind: Pauses() for kind in fresh}
            self._watches += [self._watch(kind) for kind in fresh]
            self.kinds |= frozenset(fresh)
        if self._running is not None:
            shared_loop().call_soon_threadsafe(self._begin)

    def listen(self, listener: OnChange) -> None:
        """Tell a listener of every change."""
        with self._lock:
            self._listeners += (listener,)

    def unlisten(self, listener: OnChange) -> None:
        """Stop telling a listener."""
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each != listener)

    @property
    def is_alive(self) -> bool:
        """Whether every stream is worked on; one that ended would leave the cache standing still."""
        running = self._running is not None and not self._running.done()
        return running and not any(task.done() for task in list(self._tasks.values()))

    def probe(self, pause: timedelta) -> None:
        """Ask for a sign of life: a watch in which nothing happens looks like one whose server is dead.

        Nothing where another session of this cluster has asked less than half a ``pause`` ago.
        """
        now = self._now()
        if self._probed_at is not None and abs(now - self._probed_at) < pause / 2:
            return
        self._probed_at = now
        try:
            self.kube.version()
        except ClusterError as exc:
            self.accepts_us = False if isinstance(exc, Unauthorized) else None
            self.cache.stale(None, exc.message)
            return
        self.accepts_us = True
        self.cache.answered()
        if self.cache.stale_since is not None:
            for pauses in self._pauses.values():
                pauses.hurry()

    def close(self, wait_s: float = 0.3) -> None:
        """Stop every stream; a connection attempt that hangs ends by itself, later."""
        for watch in self._watches:
            watch.close()
        if self._running is not None:
            wait([self._running], wait_s)
        self.kube.close()

    def _tell(self, kind: Kind, namespace: str) -> None:
        for listener in self._listeners:
            listener(kind, namespace)

    async def _run(self) -> None:
        self._streams = Streams(self.kube)
        try:
            self._begin()
            while pending := {task for task in self._tasks.values() if not task.done()}:
                ended, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    task.result()
        finally:
            streams, self._streams = self._streams, None
            await streams.close()

    def _begin(self) -> None:
        """Begin with what is not watched yet; runs in the event loop."""
        if self._streams is not None:
            for watch in [watch for watch in self._watches if watch not in self._tasks]:
                self._tasks[watch] = asyncio.create_task(watch.run(self._streams))

    def _watch(self, kind: Kind) -> ListWatch:
        return ListWatch(
            self.kube,
            kind[0],
            kind[1],
            "",
            lambda change, obj: self.cache.put(kind, change, obj),
            self._pauses[kind],
            on_synced=lambda: self.cache.synced(kind),
            on_stale=lambda reason: self.cache.stale(kind, reason),
        )


def _tell_why(ended: Future[None]) -> None:
    """Log what ended the streams, if it was not their being closed; the session's watch is then made anew."""
    if not ended.cancelled() and (exc := ended.exception()) is not None:
        log.error("The watch of a cluster ended: %r", exc)
