"""Jobs of a shell: what runs in front, in the background or stands still."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kubesim.clock import first
from kubesim.shell.machine import Process
from kubesim.shell.signals import DEATHS, NAMES, NUMBERS

if TYPE_CHECKING:
    from kubesim.shell.interp import Shell


class Interrupted(Exception):
    """Ctrl-C while a line was edited, or a command ran: that ends the list or loop that it was part of."""


STOPPED = 128 + NUMBERS["TSTP"]


@dataclass(eq=False)
class Job:
    """The processes of one pipeline."""

    number: int
    processes: list[Process]
    source: str
    background: bool = False
    hidden: bool = False
    """Whether it was signalled by the command that runs: what became of it is told after the next one."""
    told_stopped: bool = False
    halted: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def state(self) -> str:
        """Running, Stopped, Done, or how it ended."""
        last = self.processes[-1]
        if any(process.status is None for process in self.processes):
            return "Stopped" if any(process.stopped for process in self.processes) else "Running"
        status = last.status or 0
        if status > 128 and status - 128 in NAMES and last.fatal:
            return DEATHS.get(NAMES[status - 128], NAMES[status - 128])
        return "Done" if status == 0 else f"Exit {status}"

    @property
    def status(self) -> int:
        """The status of its last process."""
        return self.processes[-1].status or 0


class Jobs:
    """The jobs of one shell."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.table: dict[int, Job] = {}
        self.children: dict[int, Job] = {}

    def add(self, processes: list[Process], source: str, *, background: bool = False) -> Job:
        """Remember a job; one in the background gets a number."""
        number = max(self.table, default=0) + 1 if background else 0
        job = Job(number, processes, source, background)
        if background:
            self.table[number] = job
            for process in processes:
                self.children[process.pid] = job
            self._forget()
        if self.shell.interactive:
            for process in processes:
                process.group = processes[0].pid
                process.handlers = {name: None for name, text in self.shell.state.traps.items() if not text}
                process.on_stop = job.halted.set
        return job

    def _forget(self) -> None:
        """Drop the oldest ended jobs of a script that starts many."""
        if len(self.children) > 512:
            for pid, job in list(self.children.items())[:256]:
                if job.processes[-1].status is not None:
                    del self.children[pid]
                    self.table.pop(job.number, None)

    def to_front(self, job: Job) -> None:
        """Give the terminal to a job."""
        terminal = self.shell.process.terminal
        if self.shell.interactive and terminal:
            terminal.foreground = job.processes[0].group

    async def foreground(self, job: Job) -> int:
        """Wait for a job in front; returns its status and takes the terminal back."""
        shell = self.shell
        try:
            await self._ended(job)
        finally:
            if shell.interactive and shell.process.terminal:
                shell.process.terminal.foreground = shell.process.group
        if job.state == "Stopped":
            return await self._stopped(job)
        self.table.pop(job.number, None)
        await self._tell_death(job)
        if shell.interactive and not shell.subshell:
            for other in self.table.values():
                other.hidden = False
            await self.notify()
        return job.status

    async def _ended(self, job: Job) -> None:
        job.halted.clear()
        if not self.shell.interactive:
            for process in job.processes:
                await process.wait()
            return
        for process in job.processes:
            _, ended = await first(job.halted.wait(), process.wait())
            if not ended.done():
                return

    async def _stopped(self, job: Job) -> int:
        if not job.number:
            job.number = max(self.table, default=0) + 1
            self.table[job.number] = job
            self.children |= {process.pid: job for process in job.processes}
        job.told_stopped = True
        await self.shell.process.error("\n" + self.line(job) + "\n")
        return STOPPED

    async def _tell_death(self, job: Job) -> None:
        last = job.processes[-1]
        name = last.fatal
        if name not in DEATHS:
            if name == "INT" and self.shell.interactive:
                await self.shell.process.error("\n")
                raise Interrupted
            return
        text = DEATHS[name]
        shell = self.shell
        if not shell.interactive and name != "TERM":
            text = f"{shell.name}: line {shell.line}: {last.pid:5d} {text:<23} {job.source}"
        await shell.process.error(text + "\n")

    def line(self, job: Job) -> str:
        """Return a job as ``jobs`` shows it."""
        mark = self.mark(job)
        tail = " &" if job.state == "Running" else ""
        return f"[{job.number}]{mark}  {job.state:<24}{job.source}{tail}"

    def mark(self, job: Job) -> str:
        """Return the sign of the current job and the one before it."""
        return self._marks().get(job.number, " ")

    def _marks(self) -> dict[int, str]:
        numbers = sorted(self.table, key=lambda number: (self.table[number].state == "Stopped", number))
        return dict(zip(reversed(numbers), "+-", strict=False))

    def find(self, word: str) -> Job | None:
        """Return the job that ``%1``, ``%+``, ``%-``, ``%name`` or a process number means."""
        if not word.startswith("%"):
            return self.children.get(int(word)) if word.isdecimal() else None
        rest = word[1:]
        if rest.isdecimal():
            return self.table.get(int(rest))
        marks = {mark: number for number, mark in self._marks().items()}
        if rest in ("", "+", "%", "-"):
            return self.table.get(marks.get("-" if rest == "-" else "+", 0))
        if rest.startswith("?"):
            return next((job for job in self.table.values() if rest[1:] in job.source), None)
        return next((job for job in self.table.values() if job.source.startswith(rest)), None)

    async def notify(self) -> None:
        """Tell of jobs that have ended or been stopped, before a prompt and after what ran in front."""
        for job in [job for _, job in sorted(self.table.items())]:
            stopped, hidden, job.hidden = job.state == "Stopped", job.hidden, False
            if job.state == "Running":
                job.told_stopped = False
            elif not hidden and not (stopped and job.told_stopped):
                job.told_stopped = stopped
                await self.tell(job)

    async def tell(self, job: Job) -> None:
        """Say what has become of a job, and forget it if it is over."""
        stopped = job.state == "Stopped"
        await self.shell.process.error("\n" * stopped + self.line(job) + "\n")
        if not stopped:
            self.table.pop(job.number, None)
