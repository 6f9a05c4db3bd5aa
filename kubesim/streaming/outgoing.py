"""Streams to a kubelet, as the API server opens them: SPDY/3.1 with us as the client.

Formats: k8s.io/streaming's remotecommand (protocol v4.channel.k8s.io) and portforward (portforward.k8s.io).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import orjson
from aiohttp import ClientResponse

from kubesim.outside import whole
from kubesim.shell.handles import CHUNK, Reader, Writer
from kubesim.shell.machine import Stdio
from kubesim.streaming.hijack import SpdyProtocol
from kubesim.streaming.remote import ERROR, NAMES, RESIZE, STDERR, STDIN, STDOUT, Wanted
from kubesim.streaming.seam import Duplex, Ended, Lost, Refused, RuntimeFailure, Unreached
from kubesim.streaming.spdy import SpdyConnection, SpdyStream
from kubesim.streaming.upgrade import SPDY_HEADER

COMMANDS, PORTS = "v4.channel.k8s.io", "portforward.k8s.io"
LONGEST_REFUSAL = 50_000
LONGEST_TOLD = 64 * 1024


def headers(protocol: str) -> dict[str, str]:
    """Return the headers of a request to speak a protocol."""
    return {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", SPDY_HEADER: protocol}


@asynccontextmanager
async def upgraded(answer: ClientResponse) -> AsyncIterator[SpdyProtocol]:
    """Speak SPDY on an answer's connection while the block lasts. Raises ``Refused`` and ``Unreached``."""
    connection = answer.connection
    if answer.status != 101 and answer.status < 400:
        text = f"invalid upgrade response: status code {answer.status}"
        raise Unreached(text, text)
    if answer.status != 101 or connection is None or not isinstance(connection.transport, asyncio.Transport):
        text = (await whole(answer, LONGEST_REFUSAL)).decode("utf-8", "replace")
        accepted = answer.headers.getall("X-Accepted-Stream-Protocol-Versions", [])
        raise Refused(answer.status, text.removesuffix("\n"), accepted)
    transport, client = connection.transport, connection.protocol
    carrier = SpdyProtocol(transport, None)
    transport.set_protocol(carrier)
    try:
        yield carrier
    finally:
        if client is not None and carrier.gone.is_set():
            client.connection_lost(None)
        elif client is not None:
            carrier.spdy.lost()
            transport.set_protocol(client)
        transport.abort()


@dataclass(frozen=True, slots=True)
class Command:
    """A command in a container of another's, as one runs it here."""

    spdy: SpdyConnection
    wanted: Wanted

    async def __call__(self, stdio: Stdio) -> int:
        """Join the streams with the container's until the command ends. Raises ``Ended`` and ``Lost``."""
        channels = self.wanted.channels()
        names = {number: name for name, number in NAMES.items() if number in channels}
        streams = {number: self.spdy.open({"streamtype": name}) for number, name in names.items()}
        if stdio.tty:
            stdio.on_resize = lambda: _resize(stdio, streams[RESIZE])
            _resize(stdio, streams[RESIZE])
        async with _beside(_send(stdio.stdin, streams.get(STDIN))):
            outputs = _receive(streams.get(STDOUT), stdio.stdout), _receive(streams.get(STDERR), stdio.stderr)
            told, *_ = await asyncio.gather(_whole(streams[ERROR]), *outputs)
        return _code(told)


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of a pod of another's: every connection is a pair of streams."""

    spdy: SpdyConnection
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    async def __call__(self, port: int, data: Duplex) -> None:
        """Join a connection with a port until the pod's side ends. Raises ``RuntimeFailure``."""
        named = {"port": str(port), "requestid": str(next(self.numbers))}
        error = self.spdy.open({"streamtype": "error", **named})
        error.finish()
        stream = self.spdy.open({"streamtype": "data", **named})
        try:
            async with _beside(_send(data, stream)):
                told, _ = await asyncio.gather(_whole(error), _copy(stream.read, data.write))
        finally:
            stream.close()
            error.close()
        if told:
            raise RuntimeFailure(told.decode("utf-8", "replace"))


def _resize(stdio: Stdio, stream: SpdyStream) -> None:
    """Tell the size of the client's terminal."""
    rows, columns = stdio.size
    stream.send(orjson.dumps({"Width": columns, "Height": rows}) + b"\n")


@asynccontextmanager
async def _beside(work: Awaitable[None]) -> AsyncIterator[None]:
    """Do something while the block lasts."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _copy(read: Callable[[int], Awaitable[bytes]], write: Callable[[bytes], Awaitable[None]]) -> None:
    while data := await read(CHUNK):
        await write(data)


async def _receive(stream: SpdyStream | None, sink: Writer | None) -> bytes:
    """Hand on what a container prints."""
    if stream is not None and sink is not None:
        await _copy(stream.read, sink.write)
    return b""


async def _send(data: Reader | None, stream: SpdyStream | None) -> None:
    """Send what a client sends, and its end."""
    if stream is not None and data is not None:
        await _copy(data.read, stream.write)
        stream.finish()


async def _whole(stream: SpdyStream) -> bytes:
    """Return all that comes, up to a bound."""
    found = bytearray()
    while data := await stream.read(CHUNK):
        found += data[: LONGEST_TOLD - len(found)]
    return bytes(found)


def _code(told: bytes) -> int:
    """Return 0 where a Status tells of success. Raises ``Ended`` with one that does not, ``Lost`` for none."""
    try:
        status = orjson.loads(told)
    except orjson.JSONDecodeError as error:
        raise Lost from error
    if not isinstance(status, dict) or "status" not in status:
        raise Lost
    if status["status"] == "Success":
        return 0
    raise Ended(status)
