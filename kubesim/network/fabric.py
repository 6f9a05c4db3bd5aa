"""Listening ports of a cluster: pods and nodes put servers on addresses, and whatever connects finds them here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol

from kubesim.network.firewall import Firewall
from kubesim.shell.errors import NetworkError
from kubesim.shell.handles import CHUNK, Messages
from kubesim.shell.share import Share
from kubesim.streaming.pipe import Pipe
from kubesim.streaming.seam import Duplex

LONGEST_HEAD = 64 * 1024
PHRASES = {status.value: status.phrase for status in HTTPStatus}
LONGEST_BODY = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request as a simulated server sees it; ``target`` is path and query, header names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    source: str = ""
    """The address that it comes from."""

    @property
    def path(self) -> str:
        """The path without the query."""
        return self.target.partition("?")[0]


@dataclass(frozen=True, slots=True)
class Response:
    """What a simulated server answers."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Server(Protocol):
    """What listens on a port."""

    async def respond(self, request: Request) -> Response:
        """Answer an HTTP request. Raises ``NetworkError`` for what speaks no HTTP."""

    async def converse(self, connection: Duplex, source: str) -> None:
        """Serve a raw connection until it ends."""


class HttpServer:
    """Serves HTTP/1.1 on raw connections by ``respond``; subclasses say what that answers."""

    async def respond(self, request: Request) -> Response:
        """Answer nothing but 404."""
        return Response(404)

    async def converse(self, connection: Duplex, source: str) -> None:
        """Answer one request after another."""
        buffer = bytearray()
        while True:
            while b"\r\n\r\n" not in buffer:
                data = await connection.read()
                if not data or len(buffer) > LONGEST_HEAD:
                    return
                buffer += data
            head, _, rest = bytes(buffer).partition(b"\r\n\r\n")
            request, length = _parse(head, source)
            if request is None or length > LONGEST_BODY:
                await connection.write(render(Response(400, b"400 Bad Request"), close=True))
                return
            body = bytearray(rest)
            while len(body) < length:
                data = await connection.read()
                if not data:
                    return
                body += data
            buffer = body[length:]
            whole = Request(request.method, request.target, request.headers, bytes(body[:length]), source)
            if await self.reply(connection, whole):
                return

    async def reply(self, connection: Duplex, request: Request) -> bool:
        """Send the answer to a request; return whether the connection is over."""
        closing = request.headers.get("connection", "").lower() == "close"
        await connection.write(render(await self.respond(request), close=closing, head=request.method == "HEAD"))
        return closing


def _parse(head: bytes, source: str) -> tuple[Request | None, int]:
    """Return a request without its body, and how long that is; None for what is no HTTP."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    length = headers.get("content-length", "0")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not length.isdecimal() or len(length) > 12:
        return None, 0
    return Request(words[0], words[1], headers, b"", source), int(length)


def render(response: Response, *, close: bool = False, head: bool = False, length: bool = True) -> bytes:
    """Return a response as HTTP/1.1 sends it; without its length, it ends with the connection."""
    phrase = PHRASES.get(response.status, "")
    headers = {"Content-Type": "text/plain; charset=utf-8", **response.headers}
    if length:
        headers["Content-Length"] = str(len(response.body))
    headers["Connection"] = "close" if close else "keep-alive"
    lines = [
        f"HTTP/1.1 {response.status} {phrase}".rstrip(),
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + (b"" if head else response.body)


class Door(Server, Protocol):
    """The API server, with answers that do not end."""

    @property
    def place(self) -> tuple[str, int]:
        """The address and port that it tells others, beside those of its service."""

    def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Yield the pieces of a long answer. Raises ``NetworkError``."""

    def open(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Messages]:
        """Open a WebSocket with numbered channels. Raises ``NetworkError`` and ``UpgradeError``."""


Registry = Callable[[str, Request], Response | None]
"""Takes the name of a host and a request; None where it has nothing to say."""


class Fabric:
    """Every listening port of one cluster."""

    def __init__(self) -> None:
        self._servers: dict[tuple[str, int], Server] = {}
        self._addresses: set[str] = set()
        self.door: Door | None = None
        """The API server, where pods can reach it."""
        self.firewall = Firewall()
        """What the cloud around the nodes lets through."""
        self.share = Share()
        """What its containers may take of the machine that we run on."""
        self.registry: Registry = lambda name, request: None
        """Answers of the registries outside that depend on their images."""
        self.guide = ""
        """The port of our machine at which the fault injection API of the user guide is; empty for none."""
        self._turn = 0

    def attached(self, address: str) -> bool:
        """Whether somebody in the cluster has an address."""
        return address in self._addresses

    def next_of(self, places: list[tuple[str, int]]) -> tuple[str, int]:
        """Return one of several places: each in its turn."""
        self._turn += 1
        return places[self._turn % len(places)]

    def attach(self, address: str) -> None:
        """Let an address answer: connections to its closed ports are refused rather than lost."""
        self._addresses.add(address)

    def detach(self, address: str) -> None:
        """Take an address and everything that listens on it away."""
        self._addresses.discard(address)
        for key in [key for key in self._servers if key[0] == address]:
            del self._servers[key]

    def listen(self, address: str, port: int, server: Server) -> None:
        """Open a port; one that is open is taken over."""
        self._servers[address, port] = server

    def close(self, address: str, port: int, server: Server) -> None:
        """Close a port, if it is still this server's."""
        if self._servers.get((address, port)) is server:
            del self._servers[address, port]

    def shut(self, address: str, port: int) -> None:
        """Close a port, whoever listens."""
        self._servers.pop((address, port), None)

    def ports(self, address: str) -> list[int]:
        """Return the open ports of an address."""
        return sorted(port for found, port in self._servers if found == address)

    def find(self, address: str, port: int) -> Server:
        """Return what listens there. Raises ``NetworkError`` as a connection would fail."""
        server = self._servers.get((address, port))
        if server is None:
            known = address in self._addresses
            raise NetworkError("refused" if known else "timeout")
        return server


class Ends:
    """One end of a connection: what it writes, the other reads."""

    def __init__(self, incoming: Pipe, outgoing: Pipe) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._task: asyncio.Task[None] | None = None

    async def read(self, size: int = -1) -> bytes:
        """Return what has arrived; b"" once the other end has closed."""
        return await self._incoming.read(size)

    async def write(self, data: bytes) -> None:
        """Send data."""
        self._outgoing.feed(data)

    def keep(self, task: asyncio.Task[None]) -> None:
        """Hold the task that serves the other end."""
        self._task = task

    def close(self) -> None:
        """Close this end."""
        self._outgoing.end()

    def drop(self) -> None:
        """Take nothing more of what the other end writes."""
        self._incoming.end()

    @property
    def gone(self) -> bool:
        """Tell whether the other end takes nothing more."""
        return self._outgoing.ended

    async def room(self, full: int) -> None:
        """Wait until fewer bytes than ``full`` wait for the other end to read them."""
        await self._outgoing.room(full)

    async def closed(self) -> None:
        """Wait until this end is closed."""
        await self._outgoing.over()


async def bridge(server: Server, connection: Duplex, source: str) -> None:
    """Join a forwarded port, which can only be read and written, with a server that sees its clients close."""
    client, _ = joined(server, source)

    async def send() -> None:
        while data := await connection.read(CHUNK):
            await client.write(data)
        client.close()

    sending = asyncio.ensure_future(send())
    try:
        while data := await client.read(CHUNK):
            await connection.write(data)
    finally:
        sending.cancel()
        client.close()
        client.drop()


def joined(server: Server, source: str) -> tuple[Ends, Ends]:
    """Return the client's end of a new connection to a server, twice: to read from and to write to."""
    there, back = Pipe(), Pipe()
    client, served = Ends(back, there), Ends(there, back)

    async def serve() -> None:
        try:
            with suppress(NetworkError):  # of what the server itself asks: the client sees the connection close
                await server.converse(served, source)
        finally:
            back.end()

    client.keep(asyncio.ensure_future(serve()))
    return client, client
