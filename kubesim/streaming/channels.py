"""Numbered channels on a WebSocket: the first byte of every message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import WSMsgType, web

from kubesim.streaming.pipe import FULL_BYTES, Pipe
from kubesim.streaming.seam import Duplex, Refused
from kubesim.streaming.upgrade import offered_protocols

V5 = "v5.channel.k8s.io"
PROTOCOLS = ("v4.channel.k8s.io", "channel.k8s.io")
CLOSE = 255
LONGEST_MESSAGE = 1 << 20


def check_protocols(request: web.Request) -> None:
    """Raise ``Refused`` where the client offers protocols and none of them is ours."""
    offered = offered_protocols(request)
    if offered and not {*offered} & {*PROTOCOLS, V5}:
        text = f"requested protocol(s) are not supported: [{' '.join(offered)}]; supports [{' '.join(PROTOCOLS)}]"
        raise Refused(403, text)


@dataclass(frozen=True, slots=True)
class Channel:
    """One channel as a connection."""

    channels: Channels
    number: int

    async def read(self, size: int = -1) -> bytes:
        """Return what the client sent on it; b"" once it has closed the channel or gone."""
        return await self.channels.incoming[self.number].read(size)

    async def write(self, data: bytes) -> None:
        """Send data on it."""
        await self.channels.send(self.number, data)


class Channels:
    """A client on a WebSocket. ``receive`` has to run for data to arrive."""

    def __init__(self, socket: web.WebSocketResponse, readable: set[int]) -> None:
        self.socket = socket
        self.protocol = socket.ws_protocol or ""
        self.incoming = {number: Pipe(self._levelled) for number in readable}
        self._room = asyncio.Event()
        self._room.set()

    @classmethod
    async def accept(cls, request: web.Request, readable: set[int]) -> Channels:
        """Take a client. Raises web.HTTPException for a broken handshake."""
        known = (V5,) if V5 in offered_protocols(request) else PROTOCOLS
        socket = web.WebSocketResponse(protocols=known, max_msg_size=LONGEST_MESSAGE, compress=False)
        await socket.prepare(request)
        return cls(socket, readable)

    def duplex(self, number: int) -> Duplex:
        """Return a readable channel as a connection."""
        return Channel(self, number)

    async def send(self, channel: int, data: bytes) -> None:
        """Send data on a channel; to a client that has gone, nothing."""
        try:
            await self.socket.send_bytes(bytes([channel]) + data)
        except ConnectionError:
            return

    async def receive(self, other: Callable[[int, bytes], object] = lambda channel, data: None) -> None:
        """Take messages until the client goes; ``other`` gets those on channels that nobody reads as a stream."""
        async for message in self.socket:
            raw = message.data.encode() if isinstance(message.data, str) else message.data
            if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY) or not raw:
                continue
            channel, data = raw[0], raw[1:]
            if channel == CLOSE and self.protocol == V5:
                self._end(data)
            elif channel in self.incoming:
                self.incoming[channel].feed(data)
                await self._room.wait()
            else:
                other(channel, data)
        for pipe in self.incoming.values():
            pipe.end()

    def _end(self, which: bytes) -> None:
        """End a channel that the client has closed its half of."""
        if len(which) == 1 and which[0] in self.incoming:
            self.incoming[which[0]].end()

    def _levelled(self) -> None:
        if any(pipe.waiting > FULL_BYTES for pipe in self.incoming.values()):
            self._room.clear()
        else:
            self._room.set()
