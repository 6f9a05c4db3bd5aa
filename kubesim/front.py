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
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import orjson

from kubesim.errors import ApiError
from kubesim.forwarded import client_at, preamble
from kubesim.host import Host, Tenant
from kubesim.listener import Listener, most_connected

HEAD_S = 10.0
"""For TLS and the first request's head together."""
MAX_HEAD = 64 * 1024
MAX_HALF_OPEN = 256
"""Connections of which nobody knows yet whose they are; of more, the oldest is closed."""
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


class FrontListener(Listener):
    """A listening socket that closes the oldest of too many connections that have not been routed yet."""

    def __init__(self, family: int) -> None:
        super().__init__(family)
        self._half_open: dict[int, Any] = {}

    def accept(self) -> tuple[Any, Any]:
        """Take a connection."""
        connection, address = super().accept()
        self._half_open.pop(connection.fileno(), None)
        self._half_open[connection.fileno()] = connection
        if len(self._half_open) > MAX_HALF_OPEN:
            self._close_oldest()
        return connection, address

    def routed(self, descriptor: int) -> None:
        """Note that a connection's cluster is known."""
        self._half_open.pop(descriptor, None)

    def _close_oldest(self) -> None:
        self._half_open = {number: found for number, found in self._half_open.items() if found.fileno() == number}
        if len(self._half_open) > MAX_HALF_OPEN:
            oldest = self._half_open.pop(next(iter(self._half_open)))
            with suppress(OSError):
                oldest.shutdown(2)


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

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request, but not for long."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(HEAD_S, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        """Read on until the head is complete."""
        self._head += data
        if self._task is not None:
            return
        if not (HEAD_END in self._head or b"\n\n" in self._head):
            if len(self._head) > MAX_HEAD:
                self.end(malformed(431))
            return
        self._transport.pause_reading()
        self._timer.cancel()
        self._task = asyncio.ensure_future(self._front.route(self._transport, self._head, self.end))

    def end(self, last: bytes) -> None:
        """Say something and hang up."""
        self._timer.cancel()
        self._transport.write(last)
        self._transport.close()


class Front:
    """Routes connections."""

    def __init__(
        self, host: Host, listener: FrontListener, control: Callable[[], asyncio.Protocol], token: str
    ) -> None:
        """``control`` makes what serves a connection with ``token``, the control API's."""
        self._host = host
        self._listener = listener
        self._control = control
        self._token = token.encode()
        self._connected: Counter[str] = Counter()

    async def serve(self, context: ssl.SSLContext) -> asyncio.Server:
        """Begin to listen."""
        return await asyncio.get_running_loop().create_server(
            lambda: Arrival(self), sock=self._listener, ssl=context, ssl_handshake_timeout=HEAD_S, backlog=1024
        )

    async def route(self, transport: asyncio.Transport, head: bytes, end: Callable[[bytes], None]) -> None:
        """Connect a client whose first request has begun to what answers it."""
        self._listener.routed(transport.get_extra_info("socket").fileno())
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
