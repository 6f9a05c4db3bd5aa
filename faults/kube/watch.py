"""List and watch one kind for ever, as Kubernetes asks of its clients.

The official informer asks for no bookmarks, hammers a failing server and waits for ever on a dead connection; this
loop lists, watches with bookmarks and a deadline, and backs off with decorrelated jitter. Any number of them share
one event loop: watching another cluster costs connections, and no thread.
"""

from __future__ import annotations

import asyncio
import errno
import random
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Literal, Protocol

import aiohttp
import orjson

from faults.errors import ClusterError, Expired, NotFound, Unreachable
from faults.kube.client import Kube, Obj
from faults.kube.discovery import group_path, parse_resources
from faults.kube.statuses import error_for, error_of

Change = Literal["ADDED", "MODIFIED", "DELETED"]
OnChange = Callable[[Change, Obj], None]
BACKOFF_S = (0.25, 30.0)
WATCH_S = (45, 75)
LATE_S = 5.0  # after the time at which the server should have ended a watch
MAX_LINE = 16 * 1024 * 1024
PAGE = 500
KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}  # finds a half-open connection


class Stop(Protocol):
    """The part of a stop signal that the loop needs; tests hand in one that does not wait."""

    def is_set(self) -> bool:
        """Return whether the loop must end."""

    async def wait(self, timeout: float) -> bool:
        """Wait at most ``timeout`` seconds; return whether the loop must end."""

    def set(self) -> None:
        """Ask the loop to end."""


class Pauses:
    """The stop signal of a loop, whose pauses end early when there is reason to try again at once. For any thread."""

    def __init__(self) -> None:
        self._stopped = False
        self._hurry: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def is_set(self) -> bool:
        """Return whether the loop must end."""
        return self._stopped

    def set(self) -> None:
        """End the loop and its pause."""
        self._stopped = True
        self.hurry()

    def hurry(self) -> None:
        """End the pause of now, if there is one."""
        if self._loop is not None and self._hurry is not None:
            with suppress(RuntimeError):  # the event loop has been closed
                self._loop.call_soon_threadsafe(self._hurry.set)

    async def wait(self, timeout: float) -> bool:
        """Pause for at most ``timeout`` seconds; return whether the loop must end."""
        self._loop, self._hurry = asyncio.get_running_loop(), asyncio.Event()
        if not self._stopped:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), timeout)
        return self._stopped


class Streams:
    """The connections of one cluster's watches, in one event loop. Failures are ``ClusterError``."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        trust = kube.ssl_context() if kube.access.server.startswith("https") else True
        connector = aiohttp.TCPConnector(limit=0, ssl=trust, socket_factory=partial(_socket, kube.access.refusal))
        self._session = aiohttp.ClientSession(connector=connector, headers=kube.headers)

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def list(self, api_version: str, kind: str, namespace: str) -> tuple[list[Obj], str]:
        """Return all objects, and the resourceVersion of the list, in pages."""
        path = await self._path(api_version, kind, namespace)
        query, items = {"limit": str(PAGE)}, list[Obj]()
        while True:
            page = await self._json(path, query)
            # Items of a list come without these two; everything downstream wants to know what it holds.
            items += [{"apiVersion": api_version, "kind": kind, **item} for item in page.get("items") or []]
            meta = page.get("metadata", {})
            if not meta.get("continue"):
                return items, str(meta.get("resourceVersion", ""))
            query["continue"] = meta["continue"]

    @asynccontextmanager
    async def watch(
        self, api_version: str, kind: str, namespace: str, resource_version: str, *, seconds: int
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch that the server ends after ``seconds``; yields its lines as they arrive."""
        path = await self._path(api_version, kind, namespace)
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        async with self._get(path, query, seconds + LATE_S) as response:
            try:
                yield _lines(response)
            finally:
                _cut(response)

    async def _path(self, api_version: str, kind: str, namespace: str) -> str:
        path = self._kube.known_path(api_version, kind, namespace)
        if path is None:
            found = parse_resources(api_version, await self._json(group_path(api_version), {}))
            self._kube.learn(found.values())
            path = self._kube.known_path(api_version, kind, namespace)
        if path is None:
            raise NotFound(f"The cluster has no kind {kind} in {api_version}.")
        return path

    async def _json(self, path: str, query: Mapping[str, str]) -> Obj:
        async with self._get(path, query, self._kube.timeout[1]) as response:
            data = await response.read()
        try:
            answer = orjson.loads(data)
        except orjson.JSONDecodeError:
            raise Unreachable(f"{self._kube.access.server} answered something that is not JSON.") from None
        if not isinstance(answer, dict):
            raise Unreachable(f"{self._kube.access.server} answered something that is not an object.")
        return answer

    @asynccontextmanager
    async def _get(
        self, path: str, query: Mapping[str, str], patience_s: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._kube.timeout[0], sock_read=patience_s)
        name = self._kube.access.tls_server_name or None
        url = self._kube.access.server + path
        try:
            async with self._session.get(
                url, params=query, timeout=timeout, allow_redirects=False, server_hostname=name
            ) as response:
                if not 200 <= response.status < 300:
                    raise error_of(response.status, await response.read(), response.headers)
                yield response
        except aiohttp.ClientSSLError as exc:
            raise Unreachable(f"{self._kube.access.server} cannot be trusted: {exc}") from exc
        except (aiohttp.ClientError, OSError, TimeoutError) as exc:
            raise Unreachable(f"{self._kube.access.server} cannot be reached: {exc or type(exc).__name__}") from exc


class ListWatch:
    """Calls ``on_change`` for every object and every change of it, in order, from the event loop that runs ``run``.

    After a new list, objects that have gone in the meantime are reported as DELETED (by name,
    namespace and uid), and unchanged ones not at all.
    ``on_synced`` is called after every list, opened watch and bookmark; ``on_stale`` with the reason whenever the
    stream breaks.
    """

    def __init__(
        self,
        kube: Kube,
        api_version: str,
        kind: str,
        namespace: str,
        on_change: OnChange,
        stop: Stop | None = None,
        *,
        on_synced: Callable[[], None] = lambda: None,
        on_stale: Callable[[str], None] = lambda reason: None,
        rng: random.Random | None = None,
    ) -> None:
        self._kube = kube
        self._what = (api_version, kind, namespace)
        self._on_change = on_change
        self._on_synced = on_synced
        self._on_stale = on_stale
        self._stop: Stop = stop or Pauses()
        self._rng = rng or random.Random()
        self._known: dict[str, Obj] = {}  # uid -> what is needed to tell of a deletion that was missed
        self._version = ""
        self._fruitful = False
        self._pause = BACKOFF_S[0]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    async def run(self, streams: Streams | None = None) -> None:
        """Work until stopped, over connections that are shared where they are handed in."""
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        own = streams or Streams(self._kube)
        try:
            await self._work(own)
        except asyncio.CancelledError:
            if not self._stop.is_set():
                raise
        finally:
            if streams is None:
                await own.close()

    async def _work(self, streams: Streams) -> None:
        """A stream that ends in silence is followed by a pause, too: no server is hammered."""
        while not self._stop.is_set():
            asked = 0.0
            try:
                await self._once(streams)
            except Expired:
                self._version = ""
            except ClusterError as exc:
                self._on_stale(exc.message)
                asked = getattr(exc, "retry_after", None) or 0.0
            if not self._fruitful and not self._stop.is_set():
                self._pause = self._next_pause()
                await self._stop.wait(max(asked, self._pause))

    def close(self) -> None:
        """Stop, from any thread, without waiting for the server to say something."""
        self._stop.set()
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # the event loop has been closed
                self._loop.call_soon_threadsafe(self._task.cancel)

    async def _once(self, streams: Streams) -> None:
        """List where there is nothing to continue from, then watch until the server ends it."""
        self._fruitful = False
        if not self._version:
            self._take_list(*await streams.list(*self._what))
        seconds = self._rng.randint(*WATCH_S)
        async with streams.watch(*self._what, self._version, seconds=seconds) as lines:
            self._on_synced()  # whatever was missed comes at once, before anything new
            async for line in lines:
                self._event(line)
                self._fruitful, self._pause = True, BACKOFF_S[0]
                if self._stop.is_set():
                    return

    def _take_list(self, items: list[Obj], version: str) -> None:
        fresh = {item["metadata"]["uid"]: item for item in items}
        for uid in self._known.keys() - fresh.keys():
            self._on_change("DELETED", self._known[uid])
        for uid, item in fresh.items():
            before = self._known.get(uid)
            if before is None:
                self._on_change("ADDED", item)
            elif _version(before) != _version(item):
                self._on_change("MODIFIED", item)
        self._known = {uid: _stub(item) for uid, item in fresh.items()}
        self._version = version
        self._on_synced()

    def _event(self, line: bytes) -> None:
        try:
            event = orjson.loads(line)
            kind, obj = event["type"], event["object"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            raise Unreachable("The watch sent a line that is not an event.") from None
        if kind == "ERROR":
            raise error_for(int(obj.get("code", 500)), obj.get("reason", ""), obj.get("message", "watch error"))
        self._version = _version(obj)
        if kind == "BOOKMARK":
            self._on_synced()
            return
        self._remember(kind, obj)
        self._on_change(kind, obj)

    def _remember(self, kind: str, obj: Obj) -> None:
        if kind == "DELETED":
            self._known.pop(obj["metadata"]["uid"], None)
        else:
            self._known[obj["metadata"]["uid"]] = _stub(obj)

    def _next_pause(self) -> float:
        """Decorrelated jitter between a quarter of a second and half a minute."""
        low, high = BACKOFF_S
        return min(high, self._rng.uniform(low, self._pause * 3))


def _stub(obj: Obj) -> Obj:
    meta = {key: obj["metadata"].get(key, "") for key in ("name", "namespace", "uid", "resourceVersion")}
    return {"apiVersion": obj.get("apiVersion", ""), "kind": obj.get("kind", ""), "metadata": meta}


def _version(obj: Obj) -> str:
    return str(obj["metadata"]["resourceVersion"])


def _socket(refusal: Callable[[str], str] | None, address: Any) -> socket.socket:
    """Return a socket that asks an idle peer for a sign of life. Raises OSError for an address that is refused."""
    if refusal is not None and (why := refusal(str(address[4][0]))):
        raise OSError(errno.EACCES, why)
    found = socket.socket(address[0], address[1], address[2])
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if option := getattr(socket, name, None):  # macOS knows the first one by another name
            found.setsockopt(socket.IPPROTO_TCP, option, value)
    return found


def _cut(response: aiohttp.ClientResponse) -> None:
    """End a watch that is left early without TLS' goodbye, whose answer may outlast the event loop, or never come."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the lines of a stream as they arrive; Unreachable where it breaks."""
    rest = b""
    try:
        async for chunk in response.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    yield line
            if len(rest) > MAX_LINE:
                raise Unreachable("The watch sent a line of more than 16 MiB.")
    except (aiohttp.ClientError, OSError, TimeoutError) as exc:
        raise Unreachable(f"The watch broke: {exc or type(exc).__name__}") from exc
