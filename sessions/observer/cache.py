"""The slim cache of one cluster: filled by watch threads, read by checks and panels."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, TypeVar

from faults.errors import ClusterError, Unreachable
from sessions.kinds import EVENT, Kind
from sessions.observer.changes import ChangeLog

T = TypeVar("T")
Obj = dict[str, Any]
OnChange = Callable[[Kind, str], None]
"""Told of the kind that changed, and of the namespace; empty for an object of none, or for all of them."""
MOST_EVENTS = 300


class Cache:
    """Objects of several kinds by uid, and how fresh they are. Every method may be called from any thread.

    Stored objects are never changed in place, so that what ``objects`` returns can be read without a lock.
    """

    def __init__(self, kinds: Iterable[Kind], now: Callable[[], datetime], on_change: OnChange) -> None:
        self._now = now
        self._on_change = on_change
        self.changes = ChangeLog(now)
        self._lock = threading.Lock()
        self._objects: dict[Kind, dict[str, Obj]] = {kind: {} for kind in kinds}
        self._synced: set[Kind] = set()
        self._heard: datetime | None = None
        self._stale: dict[Kind | None, tuple[datetime, str]] = {}
        self._derived: dict[Kind, dict[str, tuple[Obj, Any]]] = {}

    def include(self, kinds: Iterable[Kind]) -> None:
        """Take objects of more kinds."""
        with self._lock:
            for kind in kinds:
                self._objects.setdefault(kind, {})

    def put(self, kind: Kind, change: str, obj: Obj) -> None:
        """Take one watch event; ``obj`` belongs to the cache from here on."""
        uid = obj["metadata"]["uid"]
        with self._lock:
            known = self._objects[kind]
            if kind in self._synced:  # a first list is no change
                self.changes.note(kind, known.get(uid), None if change == "DELETED" else obj)
            if change == "DELETED":
                known.pop(uid, None)
            else:
                known[uid] = _slim(obj)
                if kind == EVENT and len(known) > MOST_EVENTS:
                    del known[next(iter(known))]
            self._heard = self._now()
        self._on_change(kind, obj["metadata"].get("namespace", ""))

    def synced(self, kind: Kind) -> None:
        """A list or bookmark of the kind arrived: the cache is up to date with it."""
        with self._lock:
            fresh = kind in self._synced and kind not in self._stale
            self._synced.add(kind)
            self._stale.pop(kind, None)
            self._heard = self._now()
        if not fresh:
            self._on_change(kind, "")

    def stale(self, kind: Kind | None, reason: str) -> None:
        """The stream of the kind broke; None means that the cluster as a whole does not answer."""
        with self._lock:
            news = kind not in self._stale
            since = self._stale[kind][0] if kind in self._stale else self._now()
            self._stale[kind] = (since, reason)
        if news:
            for each in [kind] if kind else list(self._objects):
                self._on_change(each, "")

    def answered(self) -> None:
        """The cluster answered a probe."""
        with self._lock:
            back = self._stale.pop(None, None)
            self._heard = self._now()
        if back:
            for kind in list(self._objects):
                self._on_change(kind, "")

    @property
    def complete(self) -> bool:
        """Whether every kind was listed at least once."""
        with self._lock:
            return self._synced == self._objects.keys()

    @property
    def heard_at(self) -> datetime | None:
        """Time of the cluster's last sign of life; None before the first list."""
        with self._lock:
            return self._heard

    @property
    def silence(self) -> tuple[datetime, str] | None:
        """Since when the cluster as a whole has given no sign of life, and why; None while it answers."""
        with self._lock:
            trouble = self._stale.get(None)
            return (min(self._heard or trouble[0], trouble[0]), trouble[1]) if trouble else None

    @property
    def stale_since(self) -> datetime | None:
        """Since when something is missing; None while all is well."""
        with self._lock:
            return min((since for since, _ in self._stale.values()), default=None)

    def objects(self, kind: Kind) -> list[Obj]:
        """Return the newest known objects of a kind, however old they are."""
        with self._lock:
            return list(self._objects.get(kind, {}).values())

    def derived(self, kind: Kind, make: Callable[[Obj], T]) -> list[tuple[Obj, T]]:
        """Return the objects of a kind with what ``make`` makes of each, made once for each version of an object.

        For one thread, and for one ``make`` for each kind.
        """
        before, found = self._derived.get(kind, {}), {}
        for obj in self.objects(kind):
            uid = obj["metadata"]["uid"]
            known = before.get(uid)
            found[uid] = known if known is not None and known[0] is obj else (obj, make(obj))
        self._derived[kind] = found
        return list(found.values())

    def current(self, kind: Kind) -> list[Obj]:
        """Return the objects of a kind; raise ``ClusterError`` where they may be out of date."""
        with self._lock:
            trouble = self._stale.get(kind) or self._stale.get(None)
            if kind not in self._objects:
                raise ClusterError(f"{kind[1]} of {kind[0]} is not watched")
            if trouble:
                raise Unreachable(f"no news since {trouble[0]:%H:%M:%S}: {trouble[1]}")
            if kind not in self._synced:
                raise Unreachable(f"{kind[1]} has not been listed yet")
            return list(self._objects[kind].values())


def _slim(obj: Obj) -> Obj:
    """Drop what no condition and no panel reads, which is half of most objects; ``ChangeLog`` has seen it before."""
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": meta}
