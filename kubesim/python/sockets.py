"""Sockets of programs: descriptors with a connection of the pod's network behind them, or a port that listens."""

from __future__ import annotations

import asyncio
import http.client
import io
from collections import deque
from typing import Any

from kubesim.network.fabric import LONGEST_BODY, LONGEST_HEAD, Ends, Request, Response, bridge, joined
from kubesim.network.pods import PodNetwork
from kubesim.shell.errors import BrokenPipe, FileError, NetworkError
from kubesim.shell.handles import CHUNK, Handle

MAX_WAITING = 128
"""Connections that wait to be accepted; the kernel answers no more."""
FIRST_PORT, PORTS = 32768, 28232
"""The ports that the kernel gives to clients (net.ipv4.ip_local_port_range)."""
ANYWHERE, LOOPBACK = "0.0.0.0", "127.0.0.1"  # noqa: S104 - an address of the simulated pod
Place = tuple[str, int]


class Socket(Handle):
    """A socket: new, bound to a place, listening, or connected."""

    def __init__(self, stream: bool = True) -> None:
        super().__init__()
        self.stream = stream
        self.local: Place = (ANYWHERE, 0)
        self.peer: Place | None = None
        self.ends: Ends | None = None
        self.server: Any = None
        """The other end of a client's connection."""
        self.listener: Listener | None = None
        self._data = bytearray()
        self._ended = False
        self._reading: asyncio.Task[bytes] | None = None

    def connected(self, ends: Ends, local: Place, peer: Place) -> None:
        """Take a connection."""
        self.ends, self.local, self.peer = ends, local, peer

    async def arrived(self) -> None:
        """Wait until there is something to read, or the end. What arrives is kept if the wait is cancelled."""
        if self.ends is None:
            await asyncio.get_running_loop().create_future()  # a datagram that nobody sends
            return
        if self._data or self._ended:
            return
        if self._reading is None:
            self._reading = asyncio.ensure_future(self.ends.read(CHUNK))
        task = self._reading
        await asyncio.wait({task})
        if self._reading is task:
            self._reading = None
            self._data += task.result()
            self._ended = not task.result()

    async def read(self, count: int) -> bytes:
        """Return at most ``count`` bytes, ``b""`` at the end."""
        piece = await self.peek(count)
        del self._data[: len(piece)]
        return piece

    async def peek(self, count: int) -> bytes:
        """Return what the next read would."""
        if self.stream and self.ends is None:
            raise FileError("ENOTCONN")
        await self.arrived()
        return bytes(self._data[:count])

    async def room(self) -> None:
        """Wait until the other end has read enough of what was sent."""
        if self.ends is not None:
            await self.ends.room(CHUNK)

    async def write(self, data: bytes) -> None:
        """Send all of the data."""
        for at in range(0, len(data), CHUNK):
            await self.send(data[at : at + CHUNK])

    async def send(self, data: bytes) -> int:
        """Send at most ``CHUNK`` bytes; returns how many."""
        if self.stream and self.ends is None:
            raise FileError("ENOTCONN") if self.peer is None else BrokenPipe
        if self.ends is not None:
            await self.room()
            if self.ends.gone:
                raise BrokenPipe
            await self.ends.write(data[:CHUNK])
        return min(len(data), CHUNK)

    def half(self, reading: bool, writing: bool) -> None:
        """Shut down one half or both."""
        if self.ends is None:
            raise FileError("ENOTCONN")
        if writing:
            self.ends.close()
        if reading:
            self.ends.drop()

    def close(self) -> None:
        """Close the connection, or the port."""
        if self._reading is not None:
            self._reading.cancel()
        if self.ends is not None:
            self.ends.close()
            self.ends.drop()
        if self.listener is not None:
            self.listener.close()


class Listener:
    """A port that listens: connections wait in it until the program accepts them."""

    def __init__(self, network: PodNetwork, own: str, place: Place) -> None:
        self.waiting: deque[tuple[Ends, str]] = deque()
        self._network, self._own, self._place = network, own, place
        self._came = asyncio.Event()
        network.listen(place[1], self)

    async def arrived(self) -> None:
        """Wait until a connection can be accepted."""
        while not self.waiting:
            self._came.clear()
            await self._came.wait()

    def _hears(self, source: str) -> bool:
        """Tell whether a client reaches the address that the port is bound to, and there is room for it."""
        local = self._place[0].startswith("127.") and source not in (LOOPBACK, self._own, "")
        return not local and len(self.waiting) < MAX_WAITING

    async def converse(self, connection: Any, source: str) -> None:
        """Let a connection wait, and keep it until the program has closed its end."""
        if not isinstance(connection, Ends):
            await bridge(self, connection, source)
        elif self._hears(source):
            self.waiting.append((connection, LOOPBACK if self._place[0].startswith("127.") else source or LOOPBACK))
            self._came.set()
            await connection.closed()

    async def respond(self, request: Request) -> Response:
        """Send a request as a client does, and read the answer."""
        if not self._hears(request.source):
            raise NetworkError("refused")
        ends, _ = joined(self, request.source)
        try:
            await ends.write(_sent(request, self._place[1]))
            return await _answer(ends, request.method)
        finally:
            ends.close()
            ends.drop()

    def close(self) -> None:
        """Close the port, and refuse who waits."""
        self._network.close(self._place[1], self)
        for connection, _ in self.waiting:
            connection.close()
            connection.drop()
        self.waiting.clear()


def _sent(request: Request, port: int) -> bytes:
    headers = {"host": f"localhost:{port}", **request.headers, "connection": "close"}
    if request.body:
        headers["content-length"] = str(len(request.body))
    lines = [f"{request.method} {request.target} HTTP/1.1", *(f"{key.title()}: {headers[key]}" for key in headers)]
    return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + request.body


async def _answer(ends: Ends, method: str) -> Response:
    """Read an answer until it is whole, or the server closes; raises ``NetworkError`` for what is no HTTP."""
    data = bytearray()
    while not _whole(data, method):
        piece = await ends.read(CHUNK)
        data += piece
        if not piece:
            break
        if len(data) > LONGEST_HEAD + LONGEST_BODY:
            raise NetworkError("reset")
    try:
        found, body = _parsed(bytes(data), method)
    except (http.client.HTTPException, ValueError, OSError) as error:
        raise NetworkError("reset") from error
    dropped = ("transfer-encoding", "content-length", "connection")
    headers = {name: value for name, value in found.getheaders() if name.lower() not in dropped}
    return Response(found.status, body, headers)


class _Bytes:
    """Bytes as ``http.client`` takes a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _parsed(data: bytes, method: str) -> tuple[http.client.HTTPResponse, bytes]:
    found = http.client.HTTPResponse(_Bytes(data), method=method)  # type: ignore[arg-type]
    found.begin()
    return found, found.read()


def _whole(data: bytearray, method: str) -> bool:
    """Tell whether an answer is there with its body, as far as it tells its length."""
    head, found, rest = bytes(data[:LONGEST_HEAD]).partition(b"\r\n\r\n")
    if not found:
        return False
    lines = head.decode("latin-1").lower().split("\r\n")
    fields = dict(line.split(":", 1) for line in lines[1:] if ":" in line)
    if method == "HEAD" or lines[0].split(" ")[1:2] in (["204"], ["304"]):
        return True
    if "chunked" in fields.get("transfer-encoding", ""):
        return data.endswith(b"0\r\n\r\n")
    length = fields.get("content-length", "").strip()
    return length.isdecimal() and len(data) - len(head) - 4 >= int(length)
