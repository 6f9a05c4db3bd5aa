"""Watches: what has happened since a resourceVersion, then every change, as a stream of JSON lines."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

import orjson

from kubesim.asking import Ask, Unanswered, answered
from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind
from kubesim.store import Event, Store, Stored

MAX_PENDING = 4096
MAX_PENDING_BYTES = 16 * 1024 * 1024
MAX_WAITING_BYTES = 64 * 1024 * 1024
"""What may wait for all clients of a cluster together; beyond it none may have more than a fair part."""
FAIR_BYTES = 256 * 1024
CHUNK_BYTES = 256 * 1024
BOOKMARK_SECONDS = 60.0
INITIAL_END = "k8s.io/initial-events-end"
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
    ask: Ask | None = None
    """Who asks the webhook that converts the objects, where there is one."""
    bookmarks: bool = False
    initial_events: bool | None = None


class Watch:
    """One client's stream. Iterate ``lines``; call ``close`` in the end."""

    def __init__(self, store: Store, options: WatchOptions, on_slow: Callable[[], object]) -> None:
        """``on_slow`` is called once when the client reads so slowly that too many lines or bytes wait for it."""
        self._store = store
        self._options = options
        self._on_slow = on_slow
        self._initial: Iterator[bytes] = iter(())
        self._pending: deque[bytes] = deque()
        self._pending_bytes = 0
        self._unconverted: deque[Event] = deque()
        self._wake = asyncio.Event()
        self._unsubscribe: Callable[[], None] = lambda: None

    def open(self) -> None:
        """Queue what the client has missed and listen from then on, without a gap. Raises ApiError 410."""
        options = self._options
        version = options.resource_version
        if options.initial_events or (options.initial_events is None and version in ("", "0")):
            present = self._store.list(options.kind, options.namespace)  # now; encoded when it is sent
            self._initial = (self._line("ADDED", obj) for obj in present if options.matches(obj))
        elif version not in ("", "0"):
            for event in self._store.events_since(int(version), options.kind):
                self._take(event)
        if options.initial_events:
            self._initial = chain(self._initial, [self._bookmark(initial_end=True)])
        self._unsubscribe = self._store.subscribe(options.kind, self._take)
        self._wake.set()

    def close(self) -> None:
        """Stop listening."""
        self._unsubscribe()
        self._store.waiting -= self._pending_bytes
        self._pending_bytes = 0
        self._pending.clear()

    async def next_chunk(self, timeout: float) -> bytes:
        """Return some of the lines that are due, waiting at most ``timeout`` seconds; empty when there are none."""
        chunk = self._some(self._initial) or self._some(self._take_pending())
        if not chunk and self._unconverted:
            await self._convert()
            chunk = self._some(self._take_pending())
        if not chunk:
            self._wake.clear()
            try:
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
            except TimeoutError:
                return b""
            await self._convert()
            chunk = self._some(self._take_pending())
        return chunk

    async def _convert(self) -> None:
        """Queue the changes whose objects a webhook has to convert first. Raises ApiError where it does not."""
        while self._unconverted and self._options.ask is not None:
            event = self._unconverted[0]
            change = await answered(self._options.ask, lambda event=event: self._line_of(event))  # type: ignore[misc]
            self._unconverted.popleft()
            self._queue(change)

    def _some(self, lines: Iterator[bytes]) -> bytes:
        """Join lines until they make a chunk, so that long answers of many clients take turns."""
        chunk, size = [], 0
        for line in lines:
            chunk.append(line)
            size += len(line)
            if size >= CHUNK_BYTES:
                break
        return b"".join(chunk)

    def _take_pending(self) -> Iterator[bytes]:
        """Yield the waiting lines, taking each away."""
        while self._pending:
            line = self._pending.popleft()
            self._pending_bytes -= len(line)
            self._store.waiting -= len(line)
            yield line

    def bookmark(self) -> bytes:
        """Return a bookmark line, or nothing for a client that did not ask for them."""
        return self._bookmark() if self._options.bookmarks else b""

    def _take(self, event: Event) -> None:
        """Queue one change, as this client sees it."""
        if self._options.namespace and event.object["metadata"].get("namespace") != self._options.namespace:
            return
        if not self._unconverted:
            with suppress(Unanswered):
                self._queue(self._line_of(event))
                return
        self._unconverted.append(event)
        self._wake.set()

    def _line_of(self, event: Event) -> bytes:
        """Return the line of a change; none where this client does not see it. Raises Unanswered."""
        change = self._seen_as(event)
        return b"" if change is None else self._line(*change)

    def _queue(self, line: bytes) -> None:
        """Let a line wait for its client."""
        if not line:
            return
        if self._is_late():
            self.close()
            self._on_slow()
            return
        self._pending.append(line)
        self._pending_bytes += len(line)
        self._store.waiting += len(line)
        self._wake.set()

    def _is_late(self) -> bool:
        """Tell whether too much waits for this client, or for all of them and more than its part for this one."""
        if len(self._pending) >= MAX_PENDING or self._pending_bytes >= MAX_PENDING_BYTES:
            return True
        return self._store.waiting >= MAX_WAITING_BYTES and self._pending_bytes >= FAIR_BYTES

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
        meta: Obj = {"resourceVersion": str(self._store.resource_version)}
        kind = self._options.kind
        if initial_end:
            meta["annotations"] = {INITIAL_END: "true"}
        obj = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}
        return orjson.dumps({"type": "BOOKMARK", "object": obj}) + b"\n"


def _at(previous: Stored, current: Stored) -> Stored:
    """Return an object that left the selector: its last matching state at the version of the change."""
    meta = {**previous["metadata"], "resourceVersion": current["metadata"]["resourceVersion"]}
    key = ("left", meta["resourceVersion"])
    if key not in previous.memo:
        previous.memo[key] = Stored.seal({**previous, "metadata": meta})
    left: Stored = previous.memo[key]
    return left


def error_line(error: ApiError) -> bytes:
    """Return the ERROR event in which a watch tells its client what went wrong."""
    return orjson.dumps({"type": "ERROR", "object": error.status()}) + b"\n"
