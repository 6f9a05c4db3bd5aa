"""Takes a connection away from the HTTP server and speaks another protocol on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from aiohttp import web

from kubesim.streaming.spdy import SpdyConnection, SpdyError, SpdyStream


class Taken(web.StreamResponse):
    """The answer of a request whose connection speaks another protocol: nothing more to send."""

    async def prepare(self, request: web.BaseRequest) -> None:
        """Send nothing."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Send nothing."""

    @property
    def prepared(self) -> bool:
        """Whether the head has been sent: it has, by hand."""
        return True


class SpdyProtocol(asyncio.Protocol):
    """Carries an SPDY connection on a transport, and keeps writes and reads within bounds."""

    def __init__(self, transport: asyncio.Transport, opened: Callable[[SpdyStream], str]) -> None:
        """``opened``: as for ``SpdyConnection``."""
        self.gone = asyncio.Event()
        self._transport = transport
        self._writable = asyncio.Event()
        self._writable.set()
        self.spdy = SpdyConnection(self._write, self._drain, opened, self._pause, self._resume)

    def data_received(self, data: bytes) -> None:
        try:
            self.spdy.feed(data)
        except SpdyError:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()
        self._writable.set()
        self.spdy.lost()

    def pause_writing(self) -> None:
        self._writable.clear()
        self._pause()

    def resume_writing(self) -> None:
        self._writable.set()
        self._resume()

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    async def _drain(self) -> None:
        await self._writable.wait()

    def _pause(self) -> None:
        with suppress(RuntimeError):  # it is paused already
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._writable.is_set():
            with suppress(RuntimeError):
                self._transport.resume_reading()


class Hijacked:
    """An SPDY connection on the socket of a request. Use it as a context: at the end the socket is closed."""

    def __init__(self, request: web.Request, protocol: str, opened: Callable[[SpdyStream], str]) -> None:
        """Answer 101 with the chosen ``protocol`` and take the connection over."""
        transport = request.transport
        if not isinstance(transport, asyncio.Transport):
            raise ConnectionResetError("the client has gone")
        self._transport = transport
        self._server = request.protocol
        self._carrier = SpdyProtocol(transport, opened)
        head = (
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
            f"X-Stream-Protocol-Version: {protocol}\r\n\r\n"
        )
        transport.write(head.encode())
        transport.set_protocol(self._carrier)

    @property
    def spdy(self) -> SpdyConnection:
        """Return the connection."""
        return self._carrier.spdy

    async def gone(self) -> None:
        """Return when the client has closed the connection."""
        await self._carrier.gone.wait()

    async def __aenter__(self) -> Hijacked:
        return self

    async def __aexit__(self, *failure: object) -> None:
        """Flush what is written and close; the HTTP server must learn that its connection is over."""
        if self._carrier.gone.is_set():
            self._server.connection_lost(None)
            return
        self._transport.set_protocol(self._server)
        self._transport.close()
