"""The WebSocket of a command or a forwarded port, read and written by one thread.

A TLS connection bears no more: where one thread reads while another writes, now and then the request is lost, and
nobody answers. websockets' own client for threads does that from the first byte on, so only its protocol is used.
"""

from __future__ import annotations

import ssl
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress

from websockets.client import ClientProtocol
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

MAX_MESSAGE_BYTES = 1 << 20
READ_BYTES = 64 * 1024
SEND_S = 10.0
_DATA = (Opcode.CONT, Opcode.TEXT, Opcode.BINARY)


class CommandStream:
    """A WebSocket over a socket that is connected already. Raises OSError, and InvalidHandshake for a refusal."""

    def __init__(self, sock: ssl.SSLSocket, url: str, headers: Mapping[str, str], subprotocol: Subprotocol) -> None:
        self._sock = sock
        self._protocol = ClientProtocol(parse_uri(url), subprotocols=[subprotocol], max_size=MAX_MESSAGE_BYTES)
        self._parts: list[bytes] = []
        self._messages: deque[bytes] = deque()
        request = self._protocol.connect()
        request.headers.update(headers)
        self._protocol.send_request(request)
        self._send()

    def shake_hands(self, seconds: float) -> None:
        """Wait for the server to take the connection. Raises InvalidHandshake where it does not."""
        until = time.monotonic() + seconds
        while self._protocol.state is State.CONNECTING:
            self._read(_left(until))
            if self._protocol.handshake_exc is not None:
                raise self._protocol.handshake_exc

    def receive(self, seconds: float) -> bytes:
        """Return the next message. Raises TimeoutError, and ConnectionError where the server has hung up."""
        until = time.monotonic() + seconds
        while not self._messages:
            self._read(_left(until))
        return self._messages.popleft()

    def take(self) -> list[bytes]:
        """Return the messages that have come, and wait for none. Raises ConnectionError after the last."""
        with suppress(ssl.SSLWantReadError):
            while self._read(0):
                pass
        taken = list(self._messages)
        self._messages.clear()
        return taken

    def send(self, message: bytes) -> None:
        """Send a message. Raises OSError."""
        self._protocol.send_binary(message)
        self._send()

    def fileno(self) -> int:
        """Return what a selector waits for; nothing that has come is left there by ``take``."""
        return self._sock.fileno()

    def close(self) -> None:
        """Say that no more is wanted; nobody waits for the answer."""
        if self._protocol.state is State.OPEN:
            with suppress(OSError):
                self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
                self._send()

    def _read(self, seconds: float) -> bool:
        """Read once, and return whether there may be more."""
        self._sock.settimeout(seconds)
        if data := self._sock.recv(READ_BYTES):
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
        self._send()
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode in _DATA:
                self._take(event)
        if not (data or self._messages or self._protocol.handshake_exc):
            raise ConnectionResetError("the connection was closed")
        return bool(data)

    def _take(self, frame: Frame) -> None:
        self._parts.append(bytes(frame.data))
        if frame.fin:
            self._messages.append(b"".join(self._parts))
            self._parts = []

    def _send(self) -> None:
        for data in filter(None, self._protocol.data_to_send()):
            self._sock.settimeout(SEND_S)
            self._sock.sendall(data)


def _left(until: float) -> float:
    return max(until - time.monotonic(), 0.001)
