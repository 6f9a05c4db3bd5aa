"""The client of a connection that the front has passed on: its address, and its certificate where it showed one.

Both stand in one line before the first byte of HTTP. It begins with a byte that no request begins with, and the front
passes nothing on that is no request: a client cannot write it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import orjson
from aiohttp import web

from kubesim.errors import Obj
from kubesim.malformed_http import Handler, Runner

MARK, END = b"\0", b"\n"


@dataclass(frozen=True, slots=True)
class ConnectionClient:
    """Who is at the other end."""

    address: str = ""
    certificate: Obj | None = None
    """Verified by TLS already, in the form of Python's ``getpeercert``."""


def client_at(transport: asyncio.BaseTransport | None) -> ConnectionClient:
    """Return who is at the other end of a transport of ours."""
    if transport is None:
        return ConnectionClient()
    peer = transport.get_extra_info("peername")
    address = str(peer[0]) if isinstance(peer, tuple) else ""
    return ConnectionClient(address, transport.get_extra_info("peercert") or None)


def client_of(request: web.Request) -> ConnectionClient:
    """Return who has sent a request."""
    told = request.protocol.client if isinstance(request.protocol, ForwardedHandler) else None
    return told or client_at(request.transport)


def preamble(client: ConnectionClient) -> bytes:
    """Return the line that comes before the first request."""
    return MARK + orjson.dumps([client.address, client.certificate]) + END


class ForwardedHandler(Handler):
    """A connection that may begin with such a line."""

    client: ConnectionClient | None = None
    _line = b""
    _begun = False

    def data_received(self, data: bytes) -> None:
        """Take the line off; all that follows is HTTP."""
        if self._begun or not (self._line or data.startswith(MARK)):
            self._begun = True
            super().data_received(data)
            return
        self._line += data
        line, found, rest = self._line.partition(END)
        if found:
            self._begun = True
            self.client = ConnectionClient(*orjson.loads(line.removeprefix(MARK)))
            if rest:
                super().data_received(rest)


class ForwardedRunner(Runner):
    """Runs an application behind the front."""

    handler = ForwardedHandler
