"""WebSocket frames that are encoded once for many browsers, and how a server offers to write them."""

from __future__ import annotations

from collections.abc import Callable

from websockets.frames import Frame, Opcode

WRITE_ENCODED = "faultline.write_encoded"  # among the ``extensions`` of a connection's scope: a ``Write``
Write = Callable[[bytes], bool]
"""Writes an encoded frame at once; False where the browser does not keep up, or the socket is not open."""


def encode(text: str) -> bytes:
    """Return a text as the WebSocket frame that a server sends."""
    return Frame(Opcode.TEXT, text.encode()).serialize(mask=False)


def write_nothing(frame: bytes) -> bool:
    """Leave every frame to the browser's task, for a server that has no such extension."""
    return False
