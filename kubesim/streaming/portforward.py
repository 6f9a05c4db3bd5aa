"""Forwarded ports: pairs of SPDY streams, directly or through a WebSocket, and numbered WebSocket channels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from kubesim.errors import ApiError
from kubesim.streaming.channels import Channels, check_protocols
from kubesim.streaming.hijack import Hijacked, Taken
from kubesim.streaming.pipe import FULL_BYTES, Pipe
from kubesim.streaming.seam import BeginForward, Duplex, Forward, Refused, RuntimeFailure
from kubesim.streaming.spdy import SpdyConnection, SpdyError, SpdyStream
from kubesim.streaming.upgrade import Pace, is_upgrade, is_websocket, negotiate_spdy, offered_protocols, refusal

PROTOCOL = "portforward.k8s.io"
TUNNEL = f"SPDY/3.1+{PROTOCOL}"
MAX_PORTS = 64


@dataclass
class Pairs:
    """Joins the streams of one connection in pairs, data and error, and forwards each pair that is complete."""

    forward: Forward
    pace: Pace
    waiting: dict[str, dict[str, SpdyStream]] = field(default_factory=dict)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def opened(self, stream: SpdyStream) -> str:
        """Take a new stream; returns why it is refused."""
        port, kind = stream.headers.get("port", ""), stream.headers.get("streamtype", "")
        if not port.isdecimal() or not 0 < int(port) < 65536 or kind not in ("data", "error"):
            return "bad headers"
        request = stream.headers.get("requestid") or str(stream.number - (2 if kind == "data" else 0))
        pair = self.waiting.setdefault(request, {})
        if kind in pair:
            return f"{kind} stream already assigned"
        pair[kind] = stream
        if len(pair) == 2:
            del self.waiting[request]
            task = asyncio.ensure_future(self._serve(int(port), pair["data"], pair["error"]))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        return ""

    async def _serve(self, port: int, data: SpdyStream, error: SpdyStream) -> None:
        text = await forwarded(self.forward, port, Paced(data, self.pace))
        if text:
            await error.write(text.encode())
        data.close()
        error.close()

    async def stop(self) -> None:
        """End every connection."""
        tasks = [*self.tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


@dataclass(frozen=True, slots=True)
class Paced:
    """A connection that sends no faster than its user's share allows."""

    inner: Duplex
    pace: Pace

    async def read(self, size: int = -1) -> bytes:
        """Return what has arrived."""
        return await self.inner.read(size)

    async def write(self, data: bytes) -> None:
        """Send data."""
        await self.inner.write(data)
        await self.pace(len(data))


async def forwarded(forward: Forward, port: int, data: Duplex) -> str:
    """Forward one connection to its end and return the error to tell, if there is one."""
    try:
        await forward(port, data)
    except RuntimeFailure as failure:
        return str(failure)
    return ""


async def serve(
    request: web.Request, begin: BeginForward, pace: Pace, parameter: str = "ports"
) -> web.StreamResponse:
    """Serve a port-forward request to its end. Raises as ``remote.serve``.

    ``parameter``: what in the query names the ports of a WebSocket; kubelets call it ``port``.
    """
    if not is_upgrade(request):
        raise ApiError(400, "BadRequest", "Upgrade request required")
    socket = is_websocket(request)
    tunnel = socket and TUNNEL in offered_protocols(request)
    try:
        ports = _ports(request, parameter) if socket and not tunnel else []
        forward = begin()
        protocol = "" if socket else negotiate_spdy(request, (PROTOCOL,))
        if socket and not tunnel:
            check_protocols(request)
            return await _serve_channels(request, forward, ports, pace)
        return await _serve_pairs(request, Pairs(forward, pace), protocol)
    except Refused as refused:
        return refusal(refused)


async def _serve_pairs(request: web.Request, pairs: Pairs, protocol: str) -> web.StreamResponse:
    """Serve pairs of streams; without a protocol of SPDY's own they come through a WebSocket."""
    try:
        if not protocol:
            return await _serve_tunnel(request, pairs)
        async with Hijacked(request, protocol, pairs.opened) as connection:
            await connection.gone()
        return Taken(status=101)
    finally:
        await pairs.stop()


async def _serve_tunnel(request: web.Request, pairs: Pairs) -> web.StreamResponse:
    """Serve SPDY whose bytes travel in the messages of a WebSocket."""
    socket = web.WebSocketResponse(protocols=(TUNNEL,), compress=False)
    await socket.prepare(request)
    async with _tunnelled(socket, pairs) as (spdy, readable):
        async for message in socket:
            if message.type != WSMsgType.BINARY:
                continue
            try:
                spdy.feed(message.data)
            except SpdyError:
                break
            await readable.wait()
    await socket.close()
    return socket


@asynccontextmanager
async def _tunnelled(
    socket: web.WebSocketResponse, pairs: Pairs
) -> AsyncIterator[tuple[SpdyConnection, asyncio.Event]]:
    """Yield an SPDY connection that writes to a WebSocket, and what says whether it takes more."""
    room, readable = asyncio.Event(), asyncio.Event()
    room.set()
    readable.set()
    outgoing = Pipe(lambda: room.clear() if outgoing.waiting > FULL_BYTES else room.set())

    async def drain() -> None:
        await room.wait()

    async def pump() -> None:
        while data := await outgoing.read():
            try:
                await socket.send_bytes(data)
            except ConnectionError:
                return

    spdy = SpdyConnection(outgoing.feed, drain, pairs.opened, readable.clear, readable.set)
    pumping = asyncio.ensure_future(pump())
    try:
        yield spdy, readable
    finally:
        spdy.lost()
        pumping.cancel()


def _ports(request: web.Request, parameter: str) -> list[int]:
    """Return the ports that a WebSocket client asks for. Raises ``Refused``."""
    values = request.query.getall(parameter, [])
    if not values:
        raise Refused(400, f'query parameter "{parameter}" is required')
    ports = [part for value in values for part in value.split(",")]
    for port in ports:
        if not (port.isdecimal() and port.isascii() and len(port) < 6 and 0 < int(port) < 65536):
            raise Refused(400, f'unable to parse "{port}" as a port')
    return [int(port) for port in ports[:MAX_PORTS]]


async def _serve_channels(request: web.Request, forward: Forward, ports: list[int], pace: Pace) -> web.StreamResponse:
    """Serve ports of which each has two channels, data and error; both begin with the port's number."""
    channels = await Channels.accept(request, readable={2 * n for n in range(len(ports))})

    async def one(number: int, port: int) -> None:
        data = channels.duplex(2 * number)
        for channel in (2 * number, 2 * number + 1):
            await channels.send(channel, port.to_bytes(2, "little"))
        text = await forwarded(forward, port, Paced(data, pace))
        if text:
            await channels.send(2 * number + 1, text.encode())

    gone = asyncio.ensure_future(channels.receive())
    work = [asyncio.ensure_future(one(number, port)) for number, port in enumerate(ports)]
    try:
        await asyncio.wait([gone, asyncio.ensure_future(asyncio.wait(work))], return_when="FIRST_COMPLETED")
    finally:
        for task in [gone, *work]:
            task.cancel()
        await asyncio.wait([gone, *work])
    await channels.socket.close()
    return channels.socket
