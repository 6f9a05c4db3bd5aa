"""One cluster under watch: a list+watch per kind, each in a thread that fills the cache."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from datetime import datetime

from faults.errors import ClusterError
from faults.kube.client import Kube
from faults.kube.watch import ListWatch
from sessions.observer.cache import Cache, Kind

log = logging.getLogger(__name__)

PANEL_KINDS: tuple[Kind, ...] = (
    ("v1", "Pod"),
    ("v1", "Event"),
    ("v1", "Node"),
    ("batch/v1", "Job"),
    ("apps/v1", "Deployment"),
)


class ClusterWatch:
    """Keeps a ``Cache`` of a cluster current until it is closed."""

    def __init__(
        self,
        kube: Kube,
        kinds: Iterable[Kind],
        now: Callable[[], datetime],
        on_change: Callable[[Kind], None] = lambda kind: None,
    ) -> None:
        self.kube = kube
        self.kinds = frozenset(kinds) | frozenset(PANEL_KINDS)
        self.cache = Cache(self.kinds, now, on_change)
        self._watches = [self._watch(kind) for kind in sorted(self.kinds)]
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to list and watch."""
        for (_, kind), watch in zip(sorted(self.kinds), self._watches, strict=True):
            thread = threading.Thread(target=watch.run, name=f"watch {kind}", daemon=True)
            thread.start()
            self._threads.append(thread)

    @property
    def is_alive(self) -> bool:
        """Whether every stream has its thread; one that died would leave the cache standing still."""
        return all(thread.is_alive() for thread in self._threads)

    def probe(self) -> None:
        """Ask for a sign of life: a watch in which nothing happens looks like one whose server is dead."""
        try:
            self.kube.version()
        except ClusterError as exc:
            self.cache.stale(None, exc.message)
        else:
            self.cache.answered()

    def close(self, wait_s: float = 0.5) -> None:
        """Stop every stream. Threads that hang in a connection attempt end with it, later."""
        for watch in self._watches:
            watch.close()
        for thread in self._threads:
            thread.join(wait_s / max(1, len(self._threads)))

    def _watch(self, kind: Kind) -> ListWatch:
        return ListWatch(
            self.kube,
            kind[0],
            kind[1],
            "",
            lambda change, obj: self.cache.put(kind, change, obj),
            threading.Event(),
            on_synced=lambda: self.cache.synced(kind),
            on_stale=lambda reason: self.cache.stale(kind, reason),
        )
