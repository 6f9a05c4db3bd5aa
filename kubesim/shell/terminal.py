"""A terminal: echo, line editing of the kernel, control characters that become signals, window size."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kubesim.shell.handles import Changes, Handle

if TYPE_CHECKING:
    from kubesim.shell.machine import Machine, Process, Stdio

INTERRUPT, QUIT, SUSPEND, END, ERASE, KILL, WORD = 0x03, 0x1C, 0x1A, 0x04, 0x7F, 0x15, 0x17
MOST_WAITING = 65_536
_SIGNALS = {INTERRUPT: "INT", QUIT: "QUIT", SUSPEND: "TSTP"}


class Terminal(Handle):
    """The one handle that standard input, output and error of an interactive session are."""

    tty = True
    path = "/dev/pts/0"

    def __init__(self, stdio: Stdio) -> None:
        super().__init__()
        self.raw = False
        self.echo = True
        self.foreground = 0  # the process group that reads and gets signals
        self.processed = True  # whether \n is sent as \r\n
        self._stdio = stdio
        self._line = bytearray()
        self._ready = bytearray()
        self._end = 0  # ends of input that nobody has read yet
        self._closed = False
        self._changes = Changes()
        self._pump: asyncio.Task[None] | None = None
        self._machine: Machine | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns; the usual ones where the other end has no window, as readline takes them."""
        rows, columns = self._stdio.size
        return (rows if rows > 0 else 24), (columns if columns > 0 else 80)

    def attach(self, machine: Machine, process: Process) -> None:
        """Serve the session of ``process``."""
        self._machine = machine
        self.foreground = process.group
        self._stdio.on_resize = lambda: self.signal("WINCH")
        self._pump = asyncio.get_running_loop().create_task(self._serve())

    def signal(self, name: str) -> None:
        """Signal the foreground group, if it is still there."""
        machine = self._machine
        if machine:
            for process in list(machine.processes.values()):
                if process.group == self.foreground and process.terminal is self:
                    process.signal(name)

    def mode(self, *, raw: bool) -> None:
        """Switch between single keys and whole, echoed lines."""
        if raw and self._line:
            self._ready += self._line
            self._line.clear()
            self._changes.wake()
        self.raw = raw

    async def _serve(self) -> None:
        stdin = self._stdio.stdin
        while stdin:
            data = await stdin.read(4096)
            if not data:
                break
            if self.raw:
                self._ready += data[: MOST_WAITING - len(self._ready)]
            else:
                await self._cook(data)
            self._changes.wake()
        self._closed = True
        self._changes.wake()

    async def _cook(self, data: bytes) -> None:
        for at, byte in enumerate(data):
            if byte in _SIGNALS:
                self._line.clear()
                self._ready.clear()
                await self.write(b"^" + bytes([byte + 64]))
                self.signal(_SIGNALS[byte])
            elif self.raw:  # what the line just ended has started reads single keys
                self._ready += data[at:]
                return
            else:
                await self._edit(byte)

    async def _edit(self, byte: int) -> None:
        if byte in (0x0D, 0x0A):
            self._ready += self._line + b"\n"
            self._line.clear()
            await self._show(b"\n")
            self._changes.wake()
        elif byte in (ERASE, 0x08):
            await self._rub(1)
        elif byte == KILL:
            await self._rub(len(self._line))
        elif byte == WORD:
            kept = self._line.rstrip().rpartition(b" ")
            await self._rub(len(self._line) - len(kept[0] + kept[1]))
        elif byte == END:
            self._ready += self._line
            self._end += not self._line
            self._line.clear()
        elif len(self._line) + len(self._ready) < MOST_WAITING:
            self._line.append(byte)
            await self._show(bytes([byte]))

    async def _rub(self, count: int) -> None:
        for _ in range(min(count, len(self._line))):
            gone = self._line.pop()
            while self._line and gone & 0xC0 == 0x80:
                gone = self._line.pop()
            await self._show(b"\b \b")

    async def _show(self, data: bytes) -> None:
        if self.echo:
            await self.write(data)

    async def read(self, count: int) -> bytes:
        """Return typed bytes: single keys in raw mode, else up to the end of a line."""
        while not self._ready and not self._end and not self._closed:
            await self._changes.change()
        if not self._ready:
            self._end = max(self._end - 1, 0)
            return b""
        stop = self._ready.find(b"\n") + 1 if not self.raw else 0
        stop = min(stop or len(self._ready), count)
        piece = bytes(self._ready[:stop])
        del self._ready[:stop]
        return piece

    async def read_for(self, process: Process, count: int) -> bytes:
        """Read for a process in front; what is in the background stops instead, what has been stopped waits."""
        while True:
            if process.terminal is self and process.group != self.foreground:
                process.signal("TTIN")
            if process.stopped:
                await process.stopped.wait()
                continue
            data = await self.read(count)
            if not process.stopped:
                return data
            self.unread(data)

    def unread(self, data: bytes) -> None:
        """Put bytes back to be read again."""
        self._ready[:0] = data
        if data:
            self._changes.wake()

    @property
    def pending(self) -> bool:
        """Whether a read would return at once."""
        return bool(self._ready or self._end or self._closed)

    async def write(self, data: bytes) -> None:
        """Show bytes, each newline with a carriage return."""
        if self._stdio.stdout:
            await self._stdio.stdout.write(data.replace(b"\n", b"\r\n") if self.processed else data)

    def close(self) -> None:
        """Stop listening."""
        if self._pump:
            self._pump.cancel()
