"""The sockets of a server or a client, which are really closed before their event loop may end.

asyncio closes a TLS connection only when the other side has said goodbye too. A loop that ends before that leaves the
socket open until somebody finds it as garbage.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any
from weakref import WeakSet

TURNS = 100
"""In how many turns asyncio has noticed a broken connection and let go of it; five are the usual."""


class Connections:
    """Sockets that belong together."""

    def __init__(self) -> None:
        self._sockets: WeakSet[socket.socket] = WeakSet()

    def keep(self, found: socket.socket) -> socket.socket:
        """Know of one more; returns it."""
        self._sockets.add(found)
        return found

    def make(self, info: tuple[Any, ...]) -> socket.socket:
        """Return a new one for an address as getaddrinfo tells it; for aiohttp's ``socket_factory``."""
        return self.keep(socket.socket(*info[:3]))

    async def end(self) -> None:
        """Hang up wherever somebody is still there, and let asyncio close its sockets."""
        for _ in range(TURNS):
            left = [found for found in self._sockets if found.fileno() >= 0]
            if not left:
                return
            for found in left:
                with suppress(OSError):
                    found.shutdown(socket.SHUT_RDWR)
            await asyncio.sleep(0)
