"""A TCP connection between a simulated client and a simulated server."""

from __future__ import annotations

import asyncio

from kubesim.network.fabric import Server
from kubesim.streaming.pipe import Pipe


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


def joined(server: Server, source: str) -> tuple[Ends, Ends]:
    """Return the client's end of a new connection to a server, twice: to read from and to write to."""
    there, back = Pipe(), Pipe()
    client, served = Ends(back, there), Ends(there, back)

    async def serve() -> None:
        try:
            await server.converse(served, source)
        finally:
            back.end()

    client.keep(asyncio.ensure_future(serve()))
    return client, client
