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


TIMEOUT_S = (1.0, 2.5)  # shorter than elsewhere: a server that hangs must show as stale within seconds


class _Pauses:
    """The stop signal of one stream, whose pauses also end when there is reason to try again at once."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._stopped = False

    def is_set(self) -> bool:
        """Return whether the stream must end."""
        return self._stopped

    def set(self) -> None:
        """End the stream and its pause."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def hurry(self) -> None:
        """End the pause of now, if there is one."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, timeout: float) -> bool:
        """Pause for at most ``timeout`` seconds; return whether the stream must end."""
        with self._changed:
            if not self._stopped:
                self._changed.wait(timeout)
            return self._stopped


class ClusterWatch:
    """Keeps a ``Cache`` of a cluster current until it is closed."""

    def __init__(
        self,
        kube: Kube,
        kinds: Iterable[Kind],
        now: Callable[[], datetime],
        on_change: Callable[[Kind], None] = lambda kind: None,
    ) -> None:
        self.kube = Kube(kube.access, timeout=TIMEOUT_S)
        self.kinds = frozenset(kinds) | frozenset(PANEL_KINDS)
        self.cache = Cache(self.kinds, now, on_change)
        self._pauses = {kind: _Pauses() for kind in sorted(self.kinds)}
        self._watches = [self._watch(kind) for kind in self._pauses]
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to list and watch."""
        for (_, kind), watch in zip(self._pauses, self._watches, strict=True):
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
            return
        self.cache.answered()
        if self.cache.stale_since is not None:
            for pauses in self._pauses.values():
                pauses.hurry()

    def close(self, wait_s: float = 0.3) -> None:
        """Stop every stream. Threads that hang in a connection attempt end with it, later."""
        for watch in self._watches:
            watch.close()
        for thread in self._threads:
            thread.join(wait_s / max(1, len(self._threads)))
        self.kube.close()

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
