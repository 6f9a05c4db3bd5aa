"""The one address of a host: ends TLS, reads the head of a connection's first request, and passes all of it on.

The bearer token's issuer tells the cluster; it is verified there, not here. From then on bytes go both ways as they
are: a connection belongs to one cluster, which refuses another's tokens and closes the connection over them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import re
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any, cast

import orjson

from kubesim.errors import ApiError
from kubesim.forwarded import client_at, preamble
from kubesim.host import Host, Tenant
from kubesim.listener import Listener, most_connected

HEAD_S = 10.0
"""For TLS and the first request's head together."""
LINGER_S = 0.1
MAX_HEAD = 64 * 1024
MAX_SILENT, MAX_SPEAKING, MAX_ACCEPTS = 2048, 256, 16
"""Connections that have said nothing yet, those whose first request is not complete, and how many are taken in one
turn of the event loop."""
BACKLOG = 1024
MAX_CONNECTIONS = 512
"""Of one cluster."""
HEAD_END = b"\r\n\r\n"
REQUEST = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ [^ ]+ HTTP/\d\.\d\r\n")
AUTHORIZATION = re.compile(rb"\r\nauthorization:[ \t]*bearer[ \t]+([^ \t\r\n]*)", re.IGNORECASE)
PROTOCOLS = re.compile(rb"\r\nsec-websocket-protocol:([^\r\n]*)", re.IGNORECASE)
IN_PROTOCOL = b"base64url.bearer.authorization.k8s.io."
"""Before a token among a WebSocket's protocols, where a browser can send no header."""
CLUSTER_PATH = re.compile(rb"/clusters/([a-z0-9-]{1,63})(?=[/? ])")
PROBES = (b"/healthz", b"/livez", b"/readyz")
"""What upstream tells anybody."""
CONTROL = b"/control/"
UNAUTHORIZED = ApiError(401, "Unauthorized", "Unauthorized")
log = logging.getLogger("kubesim.front")


def token_of(head: bytes) -> bytes:
    """Return the bearer token of a request, or nothing."""
    if found := AUTHORIZATION.search(head):
        return found[1]
    if found := PROTOCOLS.search(head):
        for name in found[1].split(b","):
            if name.strip().startswith(IN_PROTOCOL):
                return _decoded(name.strip().removeprefix(IN_PROTOCOL))
    return b""


def claim(part: bytes, name: str) -> str:
    """Return a text of a JSON Web Token's header or payload, not verified; nothing where there is none."""
    try:
        found: Any = orjson.loads(_decoded(part))
    except orjson.JSONDecodeError:
        return ""
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, str) else ""


def _decoded(text: bytes) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return b""


def answer(code: int, body: bytes, media: str = "application/json") -> bytes:
    """Return an HTTP response after which the connection is closed."""
    lines = [
        f"HTTP/1.1 {code} {HTTPStatus(code).phrase}",
        "Cache-Control: no-cache, private",
        f"Content-Type: {media}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    return "\r\n".join(lines).encode() + HEAD_END + body


def status(error: ApiError) -> bytes:
    """Return an error as the API server sends it."""
    return answer(error.code, orjson.dumps(error.status()) + b"\n")


def malformed(code: int) -> bytes:
    """Return what Go's server answers to what is no HTTP."""
    text = f"{code} {HTTPStatus(code).phrase}"
    head = f"HTTP/1.1 {text}\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    return (head + text).encode()


class Doorstep:
    """Connections of which nobody knows yet whose they are: the silent, and those that have begun to speak.

    TLS is begun with the first byte, so that somebody who says nothing costs a socket and nothing else. Of more than
    may be, the oldest is closed.
    """

    def __init__(self, greet: Callable[[socket.socket], object]) -> None:
        """``greet`` is called with a connection that has begun to speak."""
        self._greet = greet
        self._silent: dict[socket.socket, float] = {}
        self._speaking: dict[int, socket.socket] = {}
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(1.0, self._close_late)

    def accept(self, listener: Listener) -> None:
        """Take some of the connections that wait."""
        for _ in range(MAX_ACCEPTS):
            try:
                connection, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            connection.setblocking(False)
            self._silent[connection] = self._loop.time()
            self._loop.add_reader(connection, self._spoke, connection)
            if len(self._silent) > min(MAX_SILENT, most_connected() // 4):
                self._close(next(iter(self._silent)))

    def routed(self, descriptor: int) -> None:
        """Note that a connection's cluster is known, or that it has ended."""
        self._speaking.pop(descriptor, None)

    def close(self) -> None:
        """Close all that are silent."""
        self._timer.cancel()
        for connection in [*self._silent]:
            self._close(connection)

    def _spoke(self, connection: socket.socket) -> None:
        if _has_left(connection):  # else a thousand that leave at once would close who is about to speak
            self._close(connection)
            return
        self._loop.remove_reader(connection)
        del self._silent[connection]
        self._speaking.pop(connection.fileno(), None)
        self._speaking[connection.fileno()] = connection
        self._greet(connection)
        if len(self._speaking) > MAX_SPEAKING:
            self._speaking = {number: found for number, found in self._speaking.items() if found.fileno() == number}
        if len(self._speaking) > MAX_SPEAKING:
            with suppress(OSError):
                self._speaking.pop(next(iter(self._speaking))).shutdown(socket.SHUT_RDWR)

    def _close(self, connection: socket.socket) -> None:
        self._loop.remove_reader(connection)
        del self._silent[connection]
        connection.close()

    def _close_late(self) -> None:
        """Close who has been silent for too long."""
        late = self._loop.time() - HEAD_S
        for connection in [found for found, since in self._silent.items() if since < late]:
            self._close(connection)
        self._timer = self._loop.call_later(1.0, self._close_late)


def _has_left(connection: socket.socket) -> bool:
    """Tell whether the other side has closed a connection without a word."""
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


class Splice(asyncio.Protocol):
    """One of two connections whose bytes go over to the other, no faster than the other takes them."""

    def __init__(self, on_end: Callable[[], object] = lambda: None) -> None:
        self.peer: asyncio.Transport
        self._on_end = on_end

    def data_received(self, data: bytes) -> None:
        """Pass on."""
        self.peer.write(data)

    def pause_writing(self) -> None:
        """Read no more from the other: what it sent has not gone out."""
        with suppress(RuntimeError):
            self.peer.pause_reading()

    def resume_writing(self) -> None:
        """Read on."""
        with suppress(RuntimeError):
            self.peer.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the other, after what is on its way."""
        self.peer.close()
        self._on_end()


class Arrival(asyncio.Protocol):
    """A connection whose first request is being read."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._head = b""
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle
        self._task: asyncio.Task[None] | None = None
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request, but not for long."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none in name
        self._timer = asyncio.get_running_loop().call_later(HEAD_S, self._transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Read on until the head is complete."""
        if self._task is not None or self._ended:
            return
        self._head += data
        if not (HEAD_END in self._head or b"\n\n" in self._head):
            if len(self._head) > MAX_HEAD:
                self.end(malformed(431))
            return
        self._transport.pause_reading()
        self._timer.cancel()
        self._task = asyncio.ensure_future(self._front.route(self._transport, self._head, self.end))

    def end(self, last: bytes) -> None:
        """Say something and hang up, in a moment: what is still on its way would cut the answer off."""
        self._ended = True
        self._timer.cancel()
        self._transport.resume_reading()
        self._transport.write(last)
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._transport.close)


class Front:
    """Routes connections."""

    def __init__(self, host: Host, listener: Listener, control: Callable[[], asyncio.Protocol], token: str) -> None:
        """``control`` makes what serves a connection with ``token``, the control API's."""
        self._host = host
        self._listener = listener
        self._control = control
        self._token = token.encode()
        self._connected: Counter[str] = Counter()
        self._greetings: set[asyncio.Task[None]] = set()
        self._doorstep = Doorstep(self._greet)
        self._context: ssl.SSLContext

    def start(self, context: ssl.SSLContext) -> None:
        """Begin to listen."""
        self._context = context
        self._listener.setblocking(False)
        self._listener.listen(BACKLOG)
        asyncio.get_running_loop().add_reader(self._listener, self._doorstep.accept, self._listener)

    def stop(self) -> None:
        """Take no more connections; what is open goes on."""
        asyncio.get_running_loop().remove_reader(self._listener)
        self._doorstep.close()
        for task in self._greetings:
            task.cancel()

    def _greet(self, connection: socket.socket) -> None:
        task = asyncio.ensure_future(self._begin_tls(connection))
        self._greetings.add(task)
        task.add_done_callback(self._greetings.discard)

    async def _begin_tls(self, connection: socket.socket) -> None:
        descriptor = connection.fileno()
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Arrival(self), connection, ssl=self._context, ssl_handshake_timeout=HEAD_S
            )
        except (OSError, ssl.SSLError) as error:
            log.debug("a connection could not be greeted: %s", error)
            self._doorstep.routed(descriptor)

    async def route(self, transport: asyncio.Transport, head: bytes, end: Callable[[bytes], None]) -> None:
        """Connect a client whose first request has begun to what answers it."""
        self._doorstep.routed(transport.get_extra_info("socket").fileno())
        found = REQUEST.match(head)
        if found is None:
            return end(malformed(400))
        _, target, _ = found[0].split(b" ")
        token = token_of(head.partition(HEAD_END)[0])
        if target.startswith(CONTROL) and hmac.compare_digest(token, self._token):
            return self._hand_over(transport, head)
        tenant = self._cluster_of(target, token, transport)
        if tenant is None:
            known = target.partition(b"?")[0] in PROBES
            return end(answer(200, b"ok", "text/plain; charset=utf-8") if known else status(UNAUTHORIZED))
        if self._connected[tenant.name] >= min(MAX_CONNECTIONS, most_connected() // 8):
            return end(status(ApiError(429, "TooManyRequests", "too many connections, please try again later", {})))
        await self._splice(transport, head, tenant, end)
        return None

    def _hand_over(self, transport: asyncio.Transport, head: bytes) -> None:
        """Let the control API have a connection."""
        protocol = self._control()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        protocol.data_received(head)
        transport.resume_reading()

    def _cluster_of(self, target: bytes, token: bytes, transport: asyncio.Transport) -> Tenant | None:
        """Return the cluster that a request is for: by its path of old, its token, or its client's certificate."""
        if found := CLUSTER_PATH.match(target):
            return self._host.find(name=found[1].decode())
        header, _, rest = token.partition(b".")
        if rest:
            issuer, key_id = claim(rest.partition(b".")[0], "iss"), claim(header, "kid")
            return self._host.find(issuer=issuer, key_id=key_id)
        names = (transport.get_extra_info("peercert") or {}).get("subjectAltName", ())
        found_in = (self._host.find(issuer=text) for kind, text in names if kind == "URI")
        return next(filter(None, found_in), None)

    async def _splice(
        self, transport: asyncio.Transport, head: bytes, tenant: Tenant, end: Callable[[bytes], None]
    ) -> None:
        """Pass a connection on to a cluster's process."""
        loop, name = asyncio.get_running_loop(), tenant.name
        theirs = Splice()
        try:
            if tenant.process is None:
                raise ConnectionError
            upstream, _ = await loop.create_unix_connection(lambda: theirs, tenant.process.api)
        except OSError:
            message = "the server is currently unable to handle the request"
            return end(status(ApiError(503, "ServiceUnavailable", message, {"retryAfterSeconds": 1})))
        self._connected[name] += 1
        ours = Splice(lambda: self._connected.subtract([name]))
        ours.peer, theirs.peer = upstream, transport
        transport.set_protocol(ours)
        upstream.write(preamble(client_at(transport)) + head)
        transport.resume_reading()
        return None
