"""A container's own process where a shell's machine runs it: its log, its end, and who is attached to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from kubesim.clock import Clock, ManualClock, Timer
from kubesim.kubelet import timings
from kubesim.kubelet.logfile import LogFile, stamped
from kubesim.kubelet.programs import Exit
from kubesim.kubelet.records import Container
from kubesim.shell.machine import Process, Stdio
from kubesim.streaming.pipe import Pipe

if TYPE_CHECKING:
    from kubesim.kubelet.pod import PodWorker


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


async def show(worker: PodWorker, container: Container, stdio: Stdio) -> None:
    """Show what a process prints from now on, until it ends."""
    instance, clock, seen = container.instance, worker.sandbox.host.clock, worker.now
    while container.running and container.instance is instance and not worker.gone and instance is not None:
        await clock.sleep(timings.PLEG_S)
        since, until = ((at - instance.started_at).total_seconds() for at in (seen, worker.now))
        seen = worker.now
        program = worker.program(container)
        for line in program.lines(until):
            writer = stdio.stdout if line.stream == "stdout" else stdio.stderr
            if line.at > since and writer is not None:
                at = instance.started_at + timedelta(seconds=line.at)
                text = stamped(line.text, at) if program.stamped else line.text
                await writer.write(text.encode() + b"\n")


TURNS = 50
"""Most seconds of a process between two of its timers: many are run again at once, and nobody waits for long."""
LONGEST_S = 6 * 3600.0
"""A process that has run for longer begins its second life so long ago."""


class ReplayClock:
    """Begins at ``start``, in the past of ``clock``; ``catch_up`` runs everything that was due until now."""

    def __init__(self, clock: Clock, start: datetime) -> None:
        self._clock = clock
        self._past: ManualClock | None = ManualClock(start)

    async def catch_up(self) -> None:
        """Let the past pass. What is still to come goes on with the real clock."""
        past = self._past
        assert past is not None
        await past.advance((self._clock.now() - past.now()).total_seconds(), TURNS)
        self._past = None
        for seconds, call in past.drain():
            self._clock.call_later(seconds, call)

    def now(self) -> datetime:
        """Return the time that the process has reached."""
        return (self._past or self._clock).now()

    def call_later(self, seconds: float, call: Callable[[], object]) -> Timer:
        """Run ``call`` once, ``seconds`` from now."""
        return (self._past or self._clock).call_later(seconds, call)

    async def sleep(self, seconds: float) -> None:
        """Return ``seconds`` from now."""
        await (self._past or self._clock).sleep(seconds)
