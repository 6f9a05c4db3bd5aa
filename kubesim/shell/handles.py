"""Open files: what a file descriptor stands for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kubesim.shell.errors import BrokenPipe, FileError
from kubesim.shell.files import Device, File, Node, View

if TYPE_CHECKING:
    from kubesim.shell.machine import Process

PIPE_SIZE = 65_536
CHUNK = 65_536


class Reader(Protocol):
    """The far end of a container's standard input."""

    async def read(self, count: int) -> bytes:
        """Return at most ``count`` bytes, ``b""`` at the end."""


class Writer(Protocol):
    """The far end of a container's standard output."""

    async def write(self, data: bytes) -> None:
        """Take all of ``data``; returns late when the reader is slow."""


class Messages(Protocol):
    """A WebSocket whose messages are bytes on numbered channels, the first byte being the number."""

    async def send(self, channel: int, data: bytes) -> None:
        """Send data on a channel; nothing once the other side has gone."""

    async def receive(self) -> tuple[int, bytes] | None:
        """Return the next channel and data; None once the other side has gone."""


class Handle:
    """An open file; shared by descriptors, closed with the last of them."""

    tty = False
    path = ""

    def __init__(self) -> None:
        self.users = 0

    def share(self) -> Handle:
        """Count one more descriptor."""
        self.users += 1
        return self

    def release(self) -> None:
        """Count one less and close with the last."""
        self.users -= 1
        if self.users == 0:
            self.close()

    def close(self) -> None:
        """Let go of whatever stands behind."""

    async def read(self, count: int) -> bytes:
        """Return at most ``count`` bytes, ``b""`` at the end."""
        raise FileError("EBADF")

    async def arrived(self) -> None:
        """Wait until a read need not wait."""

    async def read_for(self, process: Process, count: int) -> bytes:
        """Read as a process does that may be stopped meanwhile."""
        return await self.read(count)

    async def write(self, data: bytes) -> None:
        """Take all of ``data``."""
        raise FileError("EBADF")


class Outside(Handle):
    """A stream to somewhere outside the container."""

    def __init__(self, reader: Reader | None = None, writer: Writer | None = None) -> None:
        super().__init__()
        self._reader = reader
        self._writer = writer

    async def read(self, count: int) -> bytes:
        """Read from outside."""
        return await self._reader.read(count) if self._reader else b""

    async def write(self, data: bytes) -> None:
        """Write to outside; without a writer the bytes are lost."""
        if self._writer:
            await self._writer.write(data)


class Stdio:
    """Ends of a process outside: three streams, and a terminal's size if they are one."""

    def __init__(
        self,
        stdin: Reader | None = None,
        stdout: Writer | None = None,
        stderr: Writer | None = None,
        *,
        tty: bool = False,
        size: tuple[int, int] = (24, 80),
    ) -> None:
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        self.tty = tty
        self.size = size
        self.on_resize: Callable[[], None] | None = None

    def resize(self, rows: int, columns: int) -> None:
        """Tell the terminal's foreground processes of a new window size (SIGWINCH)."""
        self.size = (rows, columns)
        if self.on_resize:
            self.on_resize()

    def handles(self, terminal: Handle | None) -> dict[int, Handle]:
        """Return the descriptors of a program that begins here."""
        if terminal is not None:
            return dict.fromkeys((0, 1, 2), terminal)
        return {0: Outside(reader=self.stdin), 1: Outside(writer=self.stdout), 2: Outside(writer=self.stderr)}


class Bytes(Handle):
    """Bytes to read: a here-document, a here-string."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data

    async def read(self, count: int) -> bytes:
        """Return the next bytes."""
        piece, self._data = self._data[:count], self._data[count:]
        return piece


class Capture(Handle):
    """Collects what is written, up to ``limit`` bytes; more is an error of the writer."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.data = bytearray()
        self._limit = limit

    async def write(self, data: bytes) -> None:
        """Keep the bytes."""
        if len(self.data) + len(data) > self._limit:
            raise FileError("EFBIG")
        self.data += data


class OpenFile(Handle):
    """A regular file or device with a position."""

    def __init__(self, view: View, node: Node, path: str, *, readable: bool, writable: bool, append: bool) -> None:
        super().__init__()
        self.path = path
        self.node = node
        self.position = 0
        self._view = view
        self._readable, self._writable, self._append = readable, writable, append

    async def read(self, count: int) -> bytes:
        """Return bytes from the position on."""
        if not self._readable:
            raise FileError("EBADF")
        if isinstance(self.node, File):
            piece = bytes(self.node.content()[self.position : self.position + count])
            self.position += len(piece)
            return piece
        if isinstance(self.node, Device):
            return _device_bytes(self.node.kind, count)
        raise FileError("EISDIR")

    async def write(self, data: bytes) -> None:
        """Put bytes at the position, or at the end."""
        if not self._writable:
            raise FileError("EBADF")
        node = self.node
        if isinstance(node, Device):
            if node.kind == "full":
                raise FileError("ENOSPC")
            if node.sink is not None:
                node.sink(data)
            return
        if not isinstance(node, File):
            raise FileError("EBADF")
        at = len(node.data) if self._append else self.position
        self._view.overwrite(node, at, data)
        self.position = at + len(data)

    def lengthen(self, count: int) -> None:
        """Write so many zeros at the position; raises FileError where the disk is full."""
        if isinstance(self.node, File):
            self._view.lengthen(self.node, self.position + count)
            self.position += count


_NOISE = random.Random(2026)  # the host's own generator is a host file


def _device_bytes(kind: str, count: int) -> bytes:
    if kind in ("zero", "full"):
        return bytes(min(count, CHUNK))
    if kind == "random":
        return _NOISE.randbytes(min(count, CHUNK))
    return b""


class Changes:
    """Something that others wait for to change."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    async def change(self) -> None:
        """Wait until something has changed."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def wake(self) -> None:
        """Tell those who wait."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


class Pipe(Changes):
    """Two handles: what is written to ``writer`` is read from ``reader``, with room for 64 KiB."""

    def __init__(self) -> None:
        super().__init__()
        self.data = bytearray()
        self.reader = _PipeReader(self)
        self.writer = _PipeWriter(self)
        self.reading = self.writing = True


class _PipeReader(Handle):
    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self._pipe = pipe

    async def arrived(self) -> None:
        while not self._pipe.data and self._pipe.writing:
            await self._pipe.change()

    async def read(self, count: int) -> bytes:
        pipe = self._pipe
        await self.arrived()
        piece = bytes(pipe.data[:count])
        del pipe.data[:count]
        pipe.wake()
        return piece

    def close(self) -> None:
        self._pipe.reading = False
        self._pipe.wake()


class _PipeWriter(Handle):
    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self._pipe = pipe

    async def arrived(self) -> None:
        while self._pipe.reading:
            await self._pipe.change()

    async def write(self, data: bytes) -> None:
        pipe, rest = self._pipe, memoryview(data)
        while rest:
            while pipe.reading and len(pipe.data) >= PIPE_SIZE:
                await pipe.change()
            if not pipe.reading:
                raise BrokenPipe
            room = PIPE_SIZE - len(pipe.data)
            pipe.data += rest[:room]
            rest = rest[room:]
            pipe.wake()

    def close(self) -> None:
        self._pipe.writing = False
        self._pipe.wake()
