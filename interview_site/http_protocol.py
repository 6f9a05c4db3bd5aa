"""The web server's HTTP protocol: uvicorn's own, with limits on what an unfinished request may cost.

uvicorn and httptools keep whatever is sent: a head of any size, any number of headers, and for as long as it takes. A
few hundred connections that never finish their requests then use up the process's file descriptors. Here a head has a
size and a deadline, and where many connections wait, the one that has waited longest makes room.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from typing import Any
from weakref import WeakKeyDictionary

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from interview_site import proxies

MAX_HEAD_BYTES = 32 * 1024
MAX_HEADERS = 100
MAX_URL_BYTES = 8 * 1024
MAX_PIPELINED = 8
MAX_CONNECTIONS = 2000
MAX_WAITING = 512
MAX_WAITING_PER_ADDRESS = 128
MIN_WAIT_S = 1.0  # nobody is made to leave sooner, so that many may come at once
HEAD_S = 10.0  # from the first byte, or from the connection
STALLED_S = 30.0  # without reading anything of an answer
CLOSING_S = 10.0  # to take the rest of the last answer
_SPARE_FILES = 256

_REASONS = {
    408: "The request did not arrive in time.",
    414: "The address is too long.",
    431: "The request's headers are too large.",
    503: "The server has too many connections. Try again in a moment.",
}


class _Refused(Exception):
    """A limit is passed; httptools turns it into a parser's error."""


def raise_open_files() -> int:
    """Let this process open what it needs for ``MAX_CONNECTIONS``; return how many connections it can hold."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS has a limit of its own besides
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    now = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_CONNECTIONS if now == resource.RLIM_INFINITY else max(16, min(MAX_CONNECTIONS, now - _SPARE_FILES))


class Waiting:
    """The connections of one server that have not sent a whole head yet, the longest waiting first."""

    def __init__(self) -> None:
        self.max_connections = raise_open_files()
        self.is_proxy = proxies.is_proxy()
        self._since: dict[LimitedHttpProtocol, float] = {}
        self._of_address: dict[str, dict[LimitedHttpProtocol, float]] = {}

    def add(self, connection: LimitedHttpProtocol, now: float) -> None:
        """Begin to wait for a connection's head, and make room where too many wait."""
        self._since[connection] = now
        self._make_room(self._since, MAX_WAITING, now)
        if connection.counted_as:
            mine = self._of_address.setdefault(connection.counted_as, {})
            mine[connection] = now
            self._make_room(mine, MAX_WAITING_PER_ADDRESS, now)

    def remove(self, connection: LimitedHttpProtocol) -> None:
        """Stop waiting; the head is there, or the connection is gone."""
        self._since.pop(connection, None)
        mine = self._of_address.get(connection.counted_as, {})
        mine.pop(connection, None)
        if not mine:
            self._of_address.pop(connection.counted_as, None)

    def drop_oldest(self) -> bool:
        """Close the connection that has waited longest; False where none waits."""
        oldest = next(iter(self._since), None)
        if oldest is not None:
            oldest.drop()
        return oldest is not None

    def _make_room(self, among: dict[LimitedHttpProtocol, float], count: int, now: float) -> None:
        while len(among) > count:
            oldest, since = next(iter(among.items()))
            if now - since < MIN_WAIT_S:
                break
            oldest.drop()


_waiting: WeakKeyDictionary[ServerState, Waiting] = WeakKeyDictionary()


class LimitedHttpProtocol(HttpToolsProtocol):
    """One connection. It waits for a head, or the application is at work on a request."""

    counted_as = ""  # the peer's address; empty for a proxy, whose clients share it

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        waiting = _waiting.get(self.server_state)
        if waiting is None:
            waiting = _waiting[self.server_state] = Waiting()
        self._others = waiting
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._in_head = False
        self._head_bytes = self._kept_bytes = 0
        self._refused = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head; where there are too many connections, at the cost of another that waits."""
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        self.counted_as = "" if self._others.is_proxy(address) else address
        if len(self.connections) > self._others.max_connections and not self._others.drop_oldest():
            self._refuse(503)
            return
        self._others.add(self, self.loop.time())
        self._arm("head", HEAD_S, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came; a head that goes on for too long is refused before it is kept."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            self._arm("head", HEAD_S, self._head_is_late)
        began_before = self._in_head
        super().data_received(data)
        if self._in_head and began_before and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(431)

    def on_message_begin(self) -> None:
        """Begin to count a head."""
        super().on_message_begin()
        self._in_head = True
        self._head_bytes = self._kept_bytes = 0
        if len(self.pipeline) >= MAX_PIPELINED:
            raise self._limit(431)

    def on_url(self, url: bytes) -> None:
        """Keep a part of the address."""
        super().on_url(url)
        if len(self.url) > MAX_URL_BYTES:
            raise self._limit(414)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; a trailer counts as one."""
        super().on_header(name, value)
        self._kept_bytes += len(name) + len(value)
        if len(self.headers) > MAX_HEADERS or self._kept_bytes > MAX_HEAD_BYTES:
            raise self._limit(431)

    def on_headers_complete(self) -> None:
        """Hand the request to the application."""
        self._in_head = False
        self._disarm("head")
        self._others.remove(self)
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the client to take the last of this answer."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._arm("closing", CLOSING_S, self.transport.abort)
        elif self.cycle.response_complete:
            self._others.add(self, self.loop.time())

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection without a next request, also where its client does not read."""
        super().timeout_keep_alive_handler()
        self._arm("closing", CLOSING_S, self.transport.abort)

    def pause_writing(self) -> None:
        """Give a client time to read."""
        super().pause_writing()
        self._arm("stalled", STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        self._disarm("stalled")

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection to the WebSocket's protocol."""
        self._forget()
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Refuse with the status of the limit that was passed, or as malformed."""
        status = self._refused or 400
        text = _REASONS.get(status, msg).encode("ascii")
        self.transport.write(
            STATUS_LINE[status]
            + b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
            + b"content-length: %d\r\n\r\n" % len(text)
            + text
        )
        self.drop()

    def drop(self) -> None:
        """Close the connection without waiting for anything of it."""
        self._forget()
        self.transport.close()
        self._arm("closing", CLOSING_S, self.transport.abort)

    def _refuse(self, status: int) -> None:
        self._refused = status
        self.send_400_response("")

    def _limit(self, status: int) -> _Refused:
        self._refused = status
        return _Refused(status)

    def _head_is_late(self) -> None:
        if self._in_head:
            self._refuse(408)
        else:
            self.drop()  # nothing was asked: a browser opens connections in advance

    def _forget(self) -> None:
        self._others.remove(self)
        for name in list(self._timers):
            self._disarm(name)

    def _arm(self, name: str, seconds: float, then: Any) -> None:
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, then)

    def _disarm(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()
