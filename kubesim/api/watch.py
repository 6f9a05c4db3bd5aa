"""Watches: what has happened since a resourceVersion, then every change, as a stream of JSON lines."""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import orjson

from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind
from kubesim.store import Event, Store, Stored

MAX_PENDING = 4096
BOOKMARK_SECONDS = 60.0
INITIAL_END = "k8s.io/initial-events-end"
LIST_BLUEPRINT = "kubernetes.io/initial-events-list-blueprint"
Predicate = Callable[[Obj], bool]
Encoder = Callable[[Stored], bytes]


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What a client wants to watch, and how it wants to be sent it."""

    kind: Kind
    namespace: str
    matches: Predicate
    encode: Encoder
    resource_version: str = ""
    bookmarks: bool = False
    initial_events: bool | None = None


class Watch:
    """One client's stream. Iterate ``lines``; call ``close`` in the end."""

    def __init__(self, store: Store, options: WatchOptions, on_slow: Callable[[], object]) -> None:
        """``on_slow`` is called once when the client reads so slowly that ``MAX_PENDING`` lines wait for it."""
        self._store = store
        self._options = options
        self._on_slow = on_slow
        self._pending: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self._unsubscribe: Callable[[], None] = lambda: None

    def open(self) -> None:
        """Queue what the client has missed and listen from then on, without a gap. Raises ApiError 410."""
        options = self._options
        version = options.resource_version
        if options.initial_events or (options.initial_events is None and version in ("", "0")):
            self._pending.extend(self._present())
        elif version not in ("", "0"):
            for event in self._store.events_since(int(version), options.kind):
                self._take(event)
        if options.initial_events:
            self._pending.append(self._bookmark(initial_end=True))
        self._unsubscribe = self._store.subscribe(options.kind, self._take)
        self._wake.set()

    def close(self) -> None:
        """Stop listening."""
        self._unsubscribe()

    async def next_chunk(self, timeout: float) -> bytes:
        """Return the lines that are due, waiting at most ``timeout`` seconds; empty when there was nothing."""
        if not self._pending:
            self._wake.clear()
            try:
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
            except TimeoutError:
                return b""
        chunk = b"".join(self._pending)
        self._pending.clear()
        return chunk

    def bookmark(self) -> bytes:
        """Return a bookmark line, or nothing for a client that did not ask for them."""
        return self._bookmark() if self._options.bookmarks else b""

    def _present(self) -> Iterator[bytes]:
        """Yield an ADDED line for everything that exists."""
        for obj in self._store.list(self._options.kind, self._options.namespace):
            if self._options.matches(obj):
                yield self._line("ADDED", obj)

    def _take(self, event: Event) -> None:
        """Queue one change, as this client sees it."""
        if self._options.namespace and event.object["metadata"].get("namespace") != self._options.namespace:
            return
        change = self._seen_as(event)
        if change is None:
            return
        if len(self._pending) >= MAX_PENDING:
            self.close()
            self._on_slow()
            return
        self._pending.append(self._line(*change))
        self._wake.set()

    def _seen_as(self, event: Event) -> tuple[str, Stored] | None:
        """Return the event type for a client with a selector: entering is ADDED, leaving is DELETED."""
        matches, previous = self._options.matches, event.previous
        now = event.type != "DELETED" and matches(event.object)
        before = previous is not None and matches(previous)
        if now:
            return ("MODIFIED" if before else "ADDED"), event.object
        if not before or previous is None:
            return None
        return "DELETED", event.object if event.type == "DELETED" else _at(previous, event.object)

    def _line(self, change: str, obj: Stored) -> bytes:
        """Return one line of the stream."""
        return b'{"type":"%b","object":%b}\n' % (change.encode(), self._options.encode(obj))

    def _bookmark(self, *, initial_end: bool = False) -> bytes:
        """Return a line that only says how far the stream has come."""
        meta: Obj = {"resourceVersion": str(self._store.resource_version), "creationTimestamp": None}
        kind = self._options.kind
        if initial_end:
            meta["annotations"] = {INITIAL_END: "true", LIST_BLUEPRINT: _blueprint(kind)}
        obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}
        return orjson.dumps({"type": "BOOKMARK", "object": obj}) + b"\n"


def _at(previous: Stored, current: Stored) -> Stored:
    """Return an object that left the selector: its last matching state at the version of the change."""
    meta = {**previous["metadata"], "resourceVersion": current["metadata"]["resourceVersion"]}
    return Stored.seal({**previous, "metadata": meta})


def _blueprint(kind: Kind) -> str:
    """Return the empty list, encoded, that clients fill when they list through a watch."""
    empty = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": {}, "items": []}
    return base64.b64encode(orjson.dumps(empty)).decode()


def error_line(error: ApiError) -> bytes:
    """Return the ERROR event in which a watch tells its client what went wrong."""
    return orjson.dumps({"type": "ERROR", "object": error.status()}) + b"\n"
