"""One cluster under watch: a list+watch for each kind fills the cache. All clusters share one thread."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from datetime import datetime
from functools import cache

from faults.errors import ClusterError, Unauthorized
from faults.kube.client import Kube
from faults.kube.watch import ListWatch, Pauses, Streams
from sessions.observer.cache import Cache, Kind

log = logging.getLogger(__name__)

PANEL_KINDS: tuple[Kind, ...] = (
    ("v1", "Pod"),
    ("v1", "Event"),
    ("v1", "Node"),
    ("batch/v1", "Job"),
    ("apps/v1", "Deployment"),
)


TIMEOUT_S = (1.0, 2.5)  # shorter than elsewhere: a server that hangs must show as stale within seconds
MAX_REPEAT_S = 1.0  # a refused request is repeated, one that timed out is a sign of silence


@cache
def shared_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop in which every cluster is watched; its thread starts with the first."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="watches", daemon=True).start()
    return loop


class ClusterWatch:
    """Keeps a ``Cache`` of a cluster current until it is closed."""

    def __init__(
        self,
        kube: Kube,
        kinds: Iterable[Kind],
        now: Callable[[], datetime],
        on_change: Callable[[Kind], None] = lambda kind: None,
    ) -> None:
        self.kube = Kube(kube.access, timeout=TIMEOUT_S, max_repeat_s=MAX_REPEAT_S)
        self.kinds = frozenset(kinds) | frozenset(PANEL_KINDS)
        self.cache = Cache(self.kinds, now, on_change)
        self.accepts_us: bool | None = None  # None: not known, since it does not answer
        self._pauses = {kind: Pauses() for kind in sorted(self.kinds)}
        self._watches = [self._watch(kind) for kind in self._pauses]
        self._tasks: list[asyncio.Task[None]] = []
        self._running: Future[None] | None = None

    def start(self) -> None:
        """Begin to list and watch, in the event loop that all clusters share."""
        self._running = asyncio.run_coroutine_threadsafe(self._run(), shared_loop())
        self._running.add_done_callback(_tell_why)

    @property
    def is_alive(self) -> bool:
        """Whether every stream is worked on; one that ended would leave the cache standing still."""
        running = self._running is not None and not self._running.done()
        return running and not any(task.done() for task in self._tasks)

    def probe(self) -> None:
        """Ask for a sign of life: a watch in which nothing happens looks like one whose server is dead."""
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

    async def _run(self) -> None:
        streams = Streams(self.kube)
        self._tasks = [asyncio.create_task(watch.run(streams)) for watch in self._watches]
        try:
            await asyncio.gather(*self._tasks)
        finally:
            await streams.close()

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
