"""The memory of one cluster: objects, indexes, and every change in order.

An object in the store is never changed. A write seals a copy of what it is given together with its JSON bytes, so a
list or a watch sends bytes that exist already. resourceVersion is one integer, one higher with every change.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal, TypeVar
from weakref import ReferenceType, ref

import orjson

from kubesim import sharing
from kubesim.api import status
from kubesim.clock import Clock
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

K = TypeVar("K")
Change = Literal["ADDED", "MODIFIED", "DELETED"]

HISTORY = 8192
HISTORY_BYTES = 8 * 1024 * 1024
HISTORY_S = 600.0
"""How long a change is remembered at most, as upstream's storage does: an idle cluster does not grow with its age."""
SPACE = 24 * 1024 * 1024
"""What all objects of a cluster may take as JSON; with everything made of them it is some ten times that."""
SPACE_PER_NODE = 256 * 1024
"""What they may take more for each node: pods and their events."""
RESTART_GAP = 10_000
"""A snapshot may lack the last second; skipping ahead keeps a resourceVersion from meaning two things."""


class Stored(dict[str, Any]):
    """An object as the store keeps it: not to be changed.

    ``raw`` is its JSON; ``memo`` keeps what others have made of it, by who made it, as long as this version lives.
    """

    __slots__ = ("__weakref__", "memo", "raw")
    raw: bytes
    memo: dict[object, Any]

    @classmethod
    def seal(cls, obj: Obj, kept: bytes = b"") -> Stored:
        """Copy an object and keep its JSON, which may have been ``kept`` already."""
        stored = cls(sharing.copy(obj))
        # copied: what the encoder returns holds on to all of its buffer
        stored.raw = kept or bytes(memoryview(orjson.dumps(obj)))
        stored.memo = {}
        return stored

    @classmethod
    def passing(cls, obj: Obj) -> Stored:
        """Take an object of which only the JSON is kept: nobody else may hold it."""
        stored = cls(obj)
        stored.raw = bytes(memoryview(orjson.dumps(obj)))
        stored.memo = {}
        return stored

    @classmethod
    def opened(cls, raw: bytes) -> Stored:
        """Read an object from its JSON."""
        stored = cls(orjson.loads(raw))
        stored.raw = raw
        stored.memo = {}
        return stored


@dataclass(frozen=True, slots=True)
class Event:
    """One change. ``previous`` is the object before it: a watch with a selector needs both."""

    type: Change
    kind: Kind
    object: Stored
    previous: Stored | None
    resource_version: int
    at: float
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class _Past:
    """A change as it is remembered: JSON, a quarter of the room, and mostly shared with what is kept.

    ``object`` leads to what came of it for as long as that lives, which saves reading it.
    """

    type: Change
    kind: Kind
    object: ReferenceType[Stored]
    raw: bytes
    previous: bytes | None
    resource_version: int
    at: float

    @classmethod
    def of(cls, event: Event) -> _Past:
        previous = event.previous.raw if event.previous is not None else None
        obj = event.object
        return cls(event.type, event.kind, ref(obj), obj.raw, previous, event.resource_version, event.at)

    def event(self) -> Event:
        obj = self.object()
        obj = Stored.opened(self.raw) if obj is None else obj
        return Event(self.type, self.kind, obj, _opened(self.previous), self.resource_version, self.at)


Objects = list[Stored]
Events = list[Event]
Dump = tuple[int, dict[str, list[bytes]]]


def _opened(found: Stored | bytes | None) -> Stored | None:
    return _held(found) if found is not None else None


def _held(found: Stored | bytes) -> Stored:
    return Stored.opened(found) if isinstance(found, bytes) else found


class _Table:
    """The objects of one kind, by namespace and name, names in order."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.namespaces: dict[str, dict[str, Stored | bytes]] = {}
        self.order: dict[str, list[str]] = {}
        self.indexes: dict[str, dict[str, dict[tuple[str, str], None]]] = {label: {} for label in kind.indexes}

    def get(self, namespace: str, name: str) -> Stored | None:
        return _opened(self.namespaces.get(namespace, {}).get(name))

    def put(self, obj: Stored) -> Stored | None:
        namespace, name = key_of(obj)
        objects = self.namespaces.setdefault(namespace, {})
        old = _opened(objects.get(name))
        if old is None:
            insort(self.order.setdefault(namespace, []), name)
        # Events, whose kind has an end, are many and hardly ever read: their JSON takes a quarter of the room.
        objects[name] = obj.raw if self.kind.ttl_s else obj
        self._index(obj, old)
        return old

    def remove(self, namespace: str, name: str) -> Stored | None:
        old = _opened(self.namespaces.get(namespace, {}).pop(name, None))
        if old is not None:
            order = self.order[namespace]
            del order[bisect_left(order, name)]
            self._index(None, old)
        return old

    def walk(self, namespace: str = "") -> Iterator[Stored]:
        for space in (namespace,) if namespace else sorted(self.namespaces):
            objects = self.namespaces.get(space, {})
            for name in self.order.get(space, ()):
                yield _held(objects[name])

    def oldest(self, old: Callable[[Stored], bool]) -> Iterator[Stored]:
        """Yield what was created first, in each namespace as long as ``old`` holds."""
        for objects in self.namespaces.values():
            yield from takewhile(old, (_held(found) for found in objects.values()))

    def _index(self, new: Stored | None, old: Stored | None) -> None:
        for label, index in self.indexes.items():
            path = self.kind.selectable[label].path
            before = value_at(old, path) if old is not None else ""
            after = value_at(new, path) if new is not None else ""
            if before == after:
                continue
            if old is not None and before:
                _drop(index, before, key_of(old))
            if new is not None and after:
                index.setdefault(after, {})[key_of(new)] = None


class Store:
    """Every object of one cluster. Synchronous and without any rule of Kubernetes but the resourceVersion."""

    def __init__(self, clock: Clock, history: int = HISTORY) -> None:
        self.clock = clock
        self.resource_version = 1
        self._floor = 1
        self.size = 0
        self._ring: deque[_Past] = deque()
        self._history = history
        self._ring_bytes = 0
        self._tables: dict[str, _Table] = {}
        self._subscribers: dict[str, list[Callable[[Event], object]]] = {}
        self._undelivered: deque[Event] = deque()
        self.waiting = 0
        """The bytes that wait for the clients of all watches."""
        self._delivering = False

    def get(self, kind: Kind, namespace: str, name: str) -> Stored | None:
        """Return an object, or None."""
        return self._table(kind).get(namespace, name)

    def list(self, kind: Kind, namespace: str = "") -> Objects:
        """Return all objects of a kind, by namespace and name; an empty namespace means every one."""
        return [*self._table(kind).walk(namespace)]

    def oldest(self, kind: Kind, old: Callable[[Stored], bool]) -> Objects:
        """Return the objects of a kind that were created first, in each namespace as long as ``old`` holds."""
        return [*self._table(kind).oldest(old)]

    def list_at(self, kind: Kind, namespace: str, version: int) -> Objects:
        """Return what ``list`` returned at a resourceVersion. Raises 410 where history is shorter."""
        present = {key_of(obj): obj for obj in self._table(kind).walk(namespace)}
        for event in reversed(self.events_since(version, kind)):
            key = key_of(event.object)
            if namespace and key[0] != namespace:
                continue
            if event.previous is None:
                present.pop(key, None)
            else:
                present[key] = event.previous
        return [present[key] for key in sorted(present)]

    def select(self, kind: Kind, label: str, value: str) -> Objects:
        """Return the objects whose indexed field (a label of ``kind.indexes``) has a value, in order."""
        table = self._table(kind)
        keys = sorted(table.indexes[label].get(value, ()))
        return [obj for key in keys if (obj := table.get(*key)) is not None]

    def count(self, kind: Kind) -> int:
        """Return how many objects of a kind there are."""
        return sum(map(len, self._table(kind).namespaces.values()))

    def has(self, table: str) -> bool:
        """Tell quickly whether there is anything in a table."""
        return table in self._tables and any(self._tables[table].namespaces.values())

    def create(self, kind: Kind, obj: Obj) -> Stored:
        """Add an object. Raises 409 where its name is taken."""
        namespace, name = key_of(obj)
        if self._table(kind).get(namespace, name) is not None:
            raise status.already_exists(kind, name)
        return self._write("ADDED", kind, obj)

    def update(self, kind: Kind, obj: Obj) -> Stored:
        """Replace an object. Raises 404 where there is none."""
        namespace, name = key_of(obj)
        if self._table(kind).get(namespace, name) is None:
            raise status.not_found(kind, name)
        return self._write("MODIFIED", kind, obj)

    def delete(self, kind: Kind, namespace: str, name: str, last: Obj | None = None) -> Stored:
        """Remove an object and return its last state (``last``, if it changed with the deletion)."""
        table = self._table(kind)
        old = table.get(namespace, name)
        if old is None:
            raise status.not_found(kind, name)
        final = self._seal(kind, last or old)
        table.remove(namespace, name)
        self.size -= len(old.raw)
        self._record("DELETED", table.kind, final, old)
        return final

    def subscribe(self, kind: Kind | None, fn: Callable[[Event], object]) -> Callable[[], None]:
        """Call ``fn`` with every later change of a kind (None: of any), in order. Returns the way to stop it.

        A change made inside ``fn`` is delivered after the present one has reached everybody.
        """
        subscribers = self._subscribers.setdefault(kind.table if kind else "", [])
        subscribers.append(fn)
        return lambda: subscribers.remove(fn) if fn in subscribers else None

    def events_since(self, resource_version: int, kind: Kind | None = None) -> Events:
        """Return the changes after a resourceVersion, oldest first. Raises 410 where history is shorter."""
        if resource_version < self._floor:
            raise status.expired(resource_version, self._floor)
        found = []
        for past in reversed(self._ring):
            if past.resource_version <= resource_version:
                break
            if kind is None or past.kind.table == kind.table:
                found.append(past.event())
        return found[::-1]

    def dump(self) -> Dump:
        """Return the resourceVersion, and every object's JSON by table."""
        return self.resource_version, {
            name: [obj.raw for obj in table.walk()] for name, table in self._tables.items()
        }

    def load(self, dump: Dump, kinds_of: Callable[[dict[str, Objects]], dict[str, Kind]]) -> None:
        """Fill an empty store from ``dump``. ``kinds_of`` says of which kind the objects of each table are.

        It is told all objects, by table; what is in a table of no kind is left out.
        """
        version, raw = dump
        objects = {name: [Stored.seal(orjson.loads(obj), obj) for obj in table] for name, table in raw.items()}
        kinds = kinds_of(objects)
        self.resource_version = self._floor = version + RESTART_GAP
        for name in objects.keys() & kinds.keys():
            for stored in sorted(objects[name], key=_created) if kinds[name].ttl_s else objects[name]:
                self._table(kinds[name]).put(stored)
                self.size += len(stored.raw)

    def _table(self, kind: Kind) -> _Table:
        table = self._tables.get(kind.table)
        if table is None:
            table = self._tables[kind.table] = _Table(kind)
        return table

    def _seal(self, kind: Kind, obj: Obj) -> Stored:
        self.resource_version += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self.resource_version)}
        versioned = {**obj, "metadata": metadata}
        return Stored.passing(versioned) if kind.ttl_s else Stored.seal(versioned)

    def _write(self, change: Change, kind: Kind, obj: Obj) -> Stored:
        table = self._table(kind)
        new = self._seal(kind, obj)
        old = table.put(new)
        self.size += len(new.raw) - (len(old.raw) if old is not None else 0)
        self._record(change, table.kind, new, old)
        return new

    def _record(self, change: Change, kind: Kind, obj: Stored, old: Stored | None) -> None:
        event = Event(change, kind, obj, old, self.resource_version, self.clock.now().timestamp())
        self._ring.append(_Past.of(event))
        self._ring_bytes += len(obj.raw)
        self._forget(event.at - HISTORY_S)
        self._undelivered.append(event)
        if not self._delivering:
            self._deliver()

    def _forget(self, before: float) -> None:
        ring = self._ring
        while len(ring) > self._history or self._ring_bytes > HISTORY_BYTES or ring[0].at < before:
            oldest = ring.popleft()
            self._floor = oldest.resource_version
            self._ring_bytes -= len(oldest.raw)

    def _deliver(self) -> None:
        self._delivering = True
        try:
            while self._undelivered:
                event = self._undelivered.popleft()
                for fn in (*self._subscribers.get(event.kind.table, ()), *self._subscribers.get("", ())):
                    fn(event)
        finally:
            self._delivering = False


def key_of(obj: Obj) -> tuple[str, str]:
    """Return (namespace, name); the namespace of a cluster-scoped object is empty."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _created(obj: Obj) -> str:
    return str(obj["metadata"].get("creationTimestamp", ""))


def value_at(obj: Obj, path: tuple[str, ...], empty: str = "") -> str:
    """Return the text that a field selector compares: booleans as Go prints them, a missing value as ``empty``."""
    value: Any = obj
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    match value:
        case None | "":
            return empty
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def _drop(index: dict[str, dict[K, None]], value: str, key: K) -> None:
    keys = index.get(value)
    if keys is not None:
        keys.pop(key, None)
        if not keys:
            del index[value]
