"""Sockets that take connections only while there are file descriptors for more than them.

Where a process runs out of descriptors, asyncio logs every try and tries on, and the change log cannot be opened. So
who comes last is turned away, and the rest goes on.
"""

from __future__ import annotations

import resource
import socket
from typing import Any

RESERVED = 48
"""Descriptors that no connection may have: files, the event loop, what the simulated nodes open."""
ENOUGH = 8192


class Listener(socket.socket):
    """A listening socket that closes a connection at once whose descriptor is one of the last."""

    def accept(self) -> tuple[socket.socket, Any]:
        """Take a connection; raises BlockingIOError, as where there is none, after one was turned away."""
        connection, address = super().accept()
        if connection.fileno() >= most_connected():
            connection.close()
            raise BlockingIOError
        return connection, address


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
