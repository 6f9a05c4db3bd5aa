"""A container's own process where a shell's machine runs it: its log, its end, and who is attached to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from kubesim.clock import Clock
from kubesim.kubelet.logfile import LogFile
from kubesim.kubelet.programs import Exit
from kubesim.shell.machine import Process, Stdio
from kubesim.streaming.pipe import Pipe

CHUNK = 32 * 1024


class Tee:
    """One output stream of a process: into the log, and to everybody who is attached."""

    def __init__(self, main: Main, stream: str) -> None:
        self._main = main
        self._stream = stream

    async def write(self, data: bytes) -> None:
        """Take output; a slow reader that is attached slows the process down, as upstream."""
        self._main.log.write(data, self._main.clock.now(), self._stream)
        for stdio in [*self._main.attached]:
            writer = stdio.stdout if self._stream == "stdout" else stdio.stderr
            if writer is not None:
                await writer.write(data)


class Main:
    """A running process and what surrounds it. ``ended`` is called once it is over."""

    def __init__(
        self, clock: Clock, started_at: datetime, log: LogFile, *, stdin: bool, once: bool, tty: bool
    ) -> None:
        self.clock = clock
        self.log = log
        self.exit: Exit | None = None
        self.attached: list[Stdio] = []
        self._started_at = started_at
        self._stdin = Pipe(self._levelled)
        self._room = asyncio.Event()
        self._room.set()
        self._once = once
        self._over = asyncio.Event()
        self._waiter: asyncio.Task[None] | None = None
        if not stdin:
            self._stdin.end()
        out = Tee(self, "stdout")
        self.stdio = Stdio(self._stdin, out, out if tty else Tee(self, "stderr"), tty=tty)

    def _levelled(self) -> None:
        if self._stdin.waiting > CHUNK:
            self._room.clear()
        else:
            self._room.set()

    def follow(self, process: Process, ended: Callable[[], object]) -> None:
        """Note the end of the process when it comes."""
        self._waiter = asyncio.ensure_future(self._wait(process, ended))

    async def _wait(self, process: Process, ended: Callable[[], object]) -> None:
        code = await process.wait()
        now = self.clock.now()
        self.log.finish(now)
        self.exit = Exit((now - self._started_at).total_seconds(), code)
        self._over.set()
        ended()

    async def attach(self, stdio: Stdio) -> None:
        """Join until the process ends; the caller's leaving ends only the joining."""
        self.attached.append(stdio)
        if self.stdio.tty:
            self.stdio.resize(*stdio.size)
            stdio.on_resize = lambda: self.stdio.resize(*stdio.size)
        typing = asyncio.ensure_future(self._type(stdio))
        try:
            await self._over.wait()
        finally:
            self.attached.remove(stdio)
            typing.cancel()

    async def _type(self, stdio: Stdio) -> None:
        while stdio.stdin is not None and (data := await stdio.stdin.read(CHUNK)):
            self._stdin.feed(data)
            await self._room.wait()
        if self._once:
            self._stdin.end()

    def stop(self) -> None:
        """Look no further, and let go of everybody who is attached."""
        self._over.set()
        if self._waiter is not None:
            self._waiter.cancel()
