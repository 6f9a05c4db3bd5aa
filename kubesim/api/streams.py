"""The answers that do not end at once: watches and logs."""

from __future__ import annotations

import asyncio
import base64
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain

import orjson
from aiohttp import web

from kubesim.api.answers import NO_CACHE, Encoder
from kubesim.api.backend import Backend, LogRequest
from kubesim.api.convert import all_served, to_served
from kubesim.api.durations import parse_time
from kubesim.api.listing import check_number
from kubesim.api.negotiate import RequestInfo, parse_bool, parse_int
from kubesim.api.optionrules import check_log, check_read
from kubesim.api.selectors import matcher, parse_fields, parse_labels
from kubesim.api.status import bad_request, not_found
from kubesim.asking import Ask, Unanswered, answered
from kubesim.auth.users import User
from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind
from kubesim.store import Event, Store, Stored
from kubesim.streaming.upgrade import is_websocket

DEFAULT_WATCH_SECONDS = 3600.0  # upstream: 30 to 60 minutes at random
WATCH_TYPE = "application/json"
LOG_PROTOCOLS = ("binary.k8s.io", "base64.binary.k8s.io")
MAX_PENDING = 4096
MAX_PENDING_BYTES = 16 * 1024 * 1024
MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Most that may wait for all clients of a cluster together; beyond it none may have more than a fair part."""
FAIR_BYTES = 256 * 1024
CHUNK_BYTES = 256 * 1024
BOOKMARK_SECONDS = 60.0
INITIAL_END = "k8s.io/initial-events-end"
Predicate = Callable[[Obj], bool]
Encode = Callable[[Stored], bytes]


async def watch(
    backend: Backend,
    request: web.Request,
    info: RequestInfo,
    kind: Kind,
    namespace: str,
    encoder: Encoder,
    user: User,
) -> web.StreamResponse:
    """Stream the changes of a collection until the client, the time or the user's rights end it."""
    options = _watch_options(backend, request, kind, namespace, encoder)
    if options.ask is not None:
        present = backend.store.list(kind, namespace)
        await answered(options.ask, lambda: all_served(kind, present))
    seconds = parse_int("timeoutSeconds", request.query.get("timeoutSeconds", ""))
    stream = Watch(backend.store, options, lambda: abort(request))
    response = web.StreamResponse(headers={**NO_CACHE, "Content-Type": WATCH_TYPE})
    try:
        with backend.fairness.stream(user):
            async with backend.guard.stream(
                still_allowed(backend, request, info, user), seconds or DEFAULT_WATCH_SECONDS
            ):
                await response.prepare(request)
                await _pump(stream, response, backend, user)
    except ConnectionResetError:
        return response  # the client has gone
    finally:
        stream.close()
    with suppress(ConnectionResetError):
        await response.write(stream.bookmark())
        await response.write_eof()
    return response


async def _pump(stream: Watch, response: web.StreamResponse, backend: Backend, user: User) -> None:
    """Send what the watch yields, for ever; a history that is gone is told and ends it."""
    try:
        stream.open()
    except ApiError as error:
        await response.write(error_line(error))
        return
    while True:
        try:
            chunk = await stream.next_chunk(BOOKMARK_SECONDS)
        except ApiError as error:  # a webhook does not convert what has changed
            await response.write(error_line(error))
            return
        await response.write(chunk or stream.bookmark())
        if pause := backend.fairness.charge(user, len(chunk)):
            await backend.clock.sleep(pause)


def _watch_options(
    backend: Backend, request: web.Request, kind: Kind, namespace: str, encoder: Encoder
) -> WatchOptions:
    """Read the query of a watch; raises 400 and 422 before the stream begins."""
    query = request.query
    version = query.get("resourceVersion", "")
    parse_int("limit", query.get("limit", ""))
    initial_events = check_read(query, watch=True)
    check_number(version)
    fields = parse_fields(query.get("fieldSelector", ""), kind)
    headers = _once()
    selects = matcher(parse_labels(query.get("labelSelector", "")), fields)
    converted = kind.custom is not None and kind.custom.converter is not None

    def encode(obj: Stored) -> bytes:
        encoder.now = backend.clock.now()
        served = to_served(kind, obj)
        stored = served if isinstance(served, Stored) else Stored.seal(served)
        return encoder.line(stored, headers=headers())

    return WatchOptions(
        kind,
        namespace,
        (lambda obj: selects(to_served(kind, obj))) if converted else selects,
        encode,
        version,
        backend.operations.ask if converted else None,
        parse_bool(query.get("allowWatchBookmarks")),
        initial_events,
    )


def _once() -> Callable[[], bool]:
    """Return a call that says True the first time only."""
    fresh = [True]
    return lambda: fresh.pop() if fresh else False


def abort(request: web.Request) -> None:
    """Cut off a client that does not read."""
    if request.transport is not None:
        with suppress(AttributeError):  # see kubesim.serve._close
            request.transport.abort()


def still_allowed(backend: Backend, request: web.Request, info: RequestInfo, user: User) -> Callable[[], bool]:
    """Return the question whether the request would be allowed now."""

    def allowed() -> bool:
        try:
            backend.asker(request)
        except ApiError:
            return False
        return backend.authorizer.allows(user, info.attributes())

    return allowed


async def log(backend: Backend, request: web.Request, info: RequestInfo, user: User) -> web.StreamResponse:
    """Send a container's log, following it if asked to."""
    pods = backend.operations.registry.by_resource("pods")
    pod = backend.store.get(pods, info.namespace, info.name)
    if pod is None:
        raise not_found(pods, info.name)
    wanted = _log_request(backend, request, info, pod)
    headers = {**NO_CACHE, "Content-Type": "text/plain"}
    response, at_once = web.StreamResponse(headers=headers), wanted.follow or is_websocket(request)
    if is_websocket(request):
        response = web.WebSocketResponse(protocols=LOG_PROTOCOLS, compress=False)
    with backend.fairness.stream(user):
        async with (
            backend.guard.stream(still_allowed(backend, request, info, user)),
            aclosing(backend.nodes.read(pod, wanted)) as pieces,
        ):
            first = await anext(pieces, b"")
            second = b"" if at_once else await anext(pieces, b"")
            if not (at_once or second):  # all of it is there: one packet
                backend.fairness.charge(user, len(first))
                response = web.Response(body=first, headers=headers)
                response.enable_chunked_encoding()
                return response
            await response.prepare(request)
            if first or is_websocket(request):  # an empty message tells that the socket is open
                await _send(first + second, response, backend, user)
            async for piece in pieces:
                await _send(piece, response, backend, user)
    if not response.prepared:
        raise ApiError(401, "Unauthorized", "Unauthorized")
    if isinstance(response, web.WebSocketResponse):
        await response.close()
    else:
        await response.write_eof()
    return response


async def _send(piece: bytes, response: web.StreamResponse, backend: Backend, user: User) -> None:
    """Write a piece of a log, at the pace that the user's share allows."""
    if not isinstance(response, web.WebSocketResponse):
        await response.write(piece)
    elif response.ws_protocol == LOG_PROTOCOLS[1]:
        await response.send_str(base64.b64encode(piece).decode())
    else:
        await response.send_bytes(piece)
    if pause := backend.fairness.charge(user, len(piece)):
        await backend.clock.sleep(pause)


def _log_request(backend: Backend, request: web.Request, info: RequestInfo, pod: Stored) -> LogRequest:
    """Read the query of a log request; raises 400 and 422 with upstream's texts."""
    query = request.query
    numbers = {name: parse_int(name, query.get(name, "")) for name in ("sinceSeconds", "tailLines", "limitBytes")}
    since, tail, limit = numbers.values()
    moment = backend.clock.now() - timedelta(seconds=min(since, 10**9)) if since is not None else None
    if text := query.get("sinceTime", ""):
        moment = parse_time(text)
        if moment is None:
            raise bad_request(f'sinceTime: Invalid value: "{text}": must be an RFC 3339 time')
    check_log(info.name, {**numbers, "sinceTime": text, "stream": query.get("stream", "")})
    return LogRequest(
        info.namespace,
        info.name,
        container_of(pod, query.get("container", "")),
        parse_bool(query.get("previous")),
        parse_bool(query.get("follow")),
        parse_bool(query.get("timestamps")),
        tail,
        limit,
        moment,
    )


def container_of(pod: Obj, name: str) -> str:
    """Return the container that is meant; a pod with one needs no name. Raises 400."""
    spec, pod_name = pod["spec"], pod["metadata"]["name"]
    groups = ("initContainers", "containers", "ephemeralContainers")
    everything = [container["name"] for group in groups for container in spec.get(group) or ()]
    if name and name not in everything:
        raise bad_request(f"container {name} is not valid for pod {pod_name}")
    if name or len(spec["containers"]) == 1:
        return name or str(spec["containers"][0]["name"])
    choices = " ".join(everything)
    raise bad_request(f"a container name must be specified for pod {pod_name}, choose one of: [{choices}]")


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """A client's wish: the objects to watch, and the form in which they are sent."""

    kind: Kind
    namespace: str
    matches: Predicate
    encode: Encode
    resource_version: str = ""
    ask: Ask | None = None
    """The caller of the webhook that converts the objects, where there is one."""
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
