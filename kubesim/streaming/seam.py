"""What serves streams asks of whatever runs containers, and the words in which it refuses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from kubesim.shell.machine import Stdio

Run = Callable[[Stdio], Awaitable[int]]
"""Runs something on these streams and returns its exit code. Raises ``RuntimeFailure``."""


class Refused(Exception):
    """A stream that cannot begin: the kubelet's HTTP code and text, and the protocols it would accept instead."""

    def __init__(self, code: int, text: str, accepted: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.accepted = accepted


class RuntimeFailure(Exception):
    """The container runtime's own words for why something did not run."""


class Unreached(Exception):
    """A kubelet that cannot be called; the message is a dialler's, ``asked`` that of a client that sent a request."""

    def __init__(self, text: str, asked: str) -> None:
        super().__init__(text)
        self.asked = asked


class Duplex(Protocol):
    """A connection to a port, seen from either end."""

    async def read(self, size: int = -1) -> bytes:
        """Return what has arrived; b"" once the other end has closed its half."""

    async def write(self, data: bytes) -> None:
        """Send data."""


Forward = Callable[[int, Duplex], Awaitable[None]]
"""Joins a connection with a port of the pod until either ends. Raises ``RuntimeFailure``."""


Begin = Callable[[], Run]
"""Gets ready to run something. Raises ``Refused`` and ``Unreached``."""
BeginForward = Callable[[], Forward]
