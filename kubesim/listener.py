"""Sockets that take connections only while there are file descriptors for more than them.

Where a process runs out of descriptors, asyncio logs every try and tries on, and the change log cannot be opened. So
who comes last is turned away, and the rest goes on.
"""

from __future__ import annotations

import asyncio
import resource
import socket
from contextlib import suppress
from typing import Any

from aiohttp import web

from kubesim.connections import Connections

RESERVED = 48
"""Descriptors that no connection may have: files, the event loop, what the simulated nodes open."""
ENOUGH = 8192


class Listener(socket.socket):
    """A listening socket that knows its connections, and closes one at once whose descriptor is one of the last."""

    def __init__(self, family: int) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self.connections = Connections()

    def accept(self) -> tuple[socket.socket, Any]:
        """Take a connection; raises BlockingIOError, as where there is none, after one was turned away."""
        connection, address = super().accept()
        if connection.fileno() >= most_connected():
            connection.close()
            raise BlockingIOError
        return self.connections.keep(connection), address


async def close(runner: web.AppRunner, sock: Listener) -> None:
    """Close a server and its connections; clients that do not answer TLS's goodbye are not waited for."""
    connections = runner.server.connections if runner.server is not None else []
    transports = [found.transport for found in connections if found.transport is not None]
    await runner.cleanup()
    for transport in transports:
        # In Python 3.11.2 a TLS transport that was closed twice is gone so far that it cannot be aborted.
        if isinstance(transport, asyncio.WriteTransport):
            with suppress(AttributeError):
                transport.abort()
    await sock.connections.end()


def most_connected() -> int:
    """Return the first descriptor that a connection cannot have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (ENOUGH if soft == resource.RLIM_INFINITY else soft) - RESERVED


def raise_limit() -> None:
    """Let this process have enough descriptors, if it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
