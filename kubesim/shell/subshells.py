"""What a shell starts as processes of their own: programs, pipelines, subshells, substitutions, jobs."""

from __future__ import annotations

import re
from collections.abc import Awaitable

from kubesim.shell import dialects
from kubesim.shell.errors import FileError, StartError
from kubesim.shell.handles import Bytes, Capture, Handle, Pipe
from kubesim.shell.jobs import Job, Jobs
from kubesim.shell.machine import DEFAULT_PATH, Process
from kubesim.shell.nodes import Node, Pipeline, Redirected, Simple, Subshell, Timed
from kubesim.shell.programs import Program, find
from kubesim.shell.state import BreakLoop, ExitShell, ReturnFrom, Variable
from kubesim.shell.values import Values

INHERITED = ("builtins", "status", "line", "last_background", "unchecked", "calls", "first", "began",
             "command_string", "line_offset", "named")  # fmt: skip
"""Attributes that a subshell takes over from its shell beside the state."""


def _seconds(length: float, digits: int, *, long: bool) -> str:
    """Return a duration as TIMEFORMAT asks for it: 62.5, or long 1m2.5s."""
    minutes = int(length // 60) if long else 0
    return f"{minutes}m" * long + f"{length - minutes * 60:.{digits}f}" + "s" * long


class Subshells(Values):
    """The processes of one shell."""

    jobs: Jobs
    typed: list[str]

    # programs

    async def _outside(self, argv: list[str], env: dict[str, str], node: Simple, *, final: bool) -> int:
        program = await self.program(argv)
        if program is None:
            return self.status
        if final and not self.state.traps and not self.interactive:
            return await self.become(program, env)
        process = await self.fork(program=program, env=env)
        job = self.jobs.add([process], node.source)
        tool = self.process.machine.tools[program.tool]
        self.jobs.to_front(job)
        process.start(tool)
        return await self.jobs.foreground(job)

    async def program(self, argv: list[str]) -> Program | None:
        """Find a program, or say why there is none and keep the status."""
        try:
            return find(self.process.view, argv, self.state.get("PATH") or DEFAULT_PATH)
        except StartError as error:
            return await self._unfound(argv, error)

    async def _unfound(self, argv: list[str], error: StartError) -> Program | None:
        if error.text == "Exec format error":
            node = self.process.view.find(argv[0]) or None
            path = argv[0] if "/" in argv[0] else ""
            if node is not None and path and not getattr(node, "platform", ""):
                return Program("bash", self.dialect, path, ("bash", *argv))
        self.status = error.code
        await self.complain(dialects.not_found(self.dialect, argv[0], error))
        return None

    async def become(self, program: Program, env: dict[str, str]) -> int:
        """Replace this process by a program."""
        process = self.process
        process.program, process.argv, process.env = program, list(program.argv), env
        process.handlers = {name: None for name, handler in process.handlers.items() if handler is None}
        status = await process.execute(process.machine.tools[program.tool])
        await process.flush()
        raise ExitShell(status)

    async def _pipeline(self, node: Pipeline, final: bool) -> int:
        if len(node.parts) == 1:
            self.unchecked += node.negated
            try:
                status = await self.execute(node.parts[0])
            finally:
                self.unchecked -= node.negated
            return int(not status) if node.negated else status
        job = await self._pipe(node)
        status = await self.jobs.foreground(job)
        statuses = [process.status or 0 for process in job.processes]
        self.state.variables["PIPESTATUS"] = Variable({index: str(each) for index, each in enumerate(statuses)})
        if "pipefail" in self.state.options:
            status = next((each for each in reversed(statuses) if each), 0)
        if node.negated:
            return int(not status)
        return await self.checked(status)

    async def _timed(self, node: Timed, final: bool) -> int:
        """Run a pipeline, then tell how long it took and how much of that the container's programs were computing."""
        machine = self.process.machine
        began, spent = machine.now(), machine.meter.seconds(machine.now())
        status = await self.execute(node.part)
        busy = machine.meter.seconds(machine.now()) - spent
        form = self.state.get("TIMEFORMAT") if not node.posix else "real %2R\nuser %2U\nsys %2S"
        form = "\nreal\t%3lR\nuser\t%3lU\nsys\t%3lS" if form is None else form
        took = {"R": machine.now() - began, "U": busy * 0.87, "S": busy * 0.13}
        told = re.sub(
            r"%([0-3]?)(l?)([RUS])", lambda at: _seconds(took[at[3]], int(at[1] or 3), long=bool(at[2])), form
        )
        await self.process.error(told + "\n" if told else "")
        return status

    async def _pipe(self, node: Pipeline) -> Job:
        """Start every part of a pipeline."""
        started: list[tuple[Process, Node]] = []
        source: Handle | None = None
        both = (*node.both, False)
        for index, part in enumerate(node.parts):
            pipe = Pipe() if index < len(node.parts) - 1 else None
            fds = dict(self.process.fds)
            if source:
                fds[0] = source
            if pipe:
                fds[1] = pipe.writer
                if both[index]:
                    fds[2] = pipe.writer
            started.append((await self.fork(fds), part))
            source = pipe.reader if pipe else None
        job = self.jobs.add([process for process, _ in started], "")
        self.jobs.to_front(job)
        for process, part in started:
            self.begin(process, part)
        return job

    async def fork(
        self,
        fds: dict[int, Handle] | None = None,
        *,
        program: Program | None = None,
        env: dict[str, str] | None = None,
    ) -> Process:
        """Make a process: for a program, or for a subshell. Leaves where there are too many."""
        shell = Program(self.process.program.tool, self.process.program.flavour, "", tuple(self.process.argv))
        try:
            return self.process.child(program or shell, env=env or self.state.environment(), fds=fds)
        except FileError as error:
            await self.complain(f"fork: retry: {error.text}")
            raise ExitShell(254) from error

    def begin(self, process: Process, node: Node) -> None:
        """Run a command in a subshell."""
        state = self.state.copy()
        state.traps = {name: text for name, text in state.traps.items() if not text}
        state.scopes = state.scopes or []
        inner = type(self)(process, self.dialect, self.name, state)
        for name in INHERITED:
            setattr(inner, name, getattr(self, name))
        inner.subshell, inner.names, inner.typed = True, list(self.names), list(self.typed)

        async def main(process: Process) -> int:
            return await inner.finish(inner.execute(node, final=True))

        process.start(main)

    async def finish(self, work: Awaitable[int]) -> int:
        """Await a shell's whole work, then its EXIT trap; returns the status."""
        try:
            status = await work
        except (ExitShell, ReturnFrom) as leave:
            status = leave.status
        except BreakLoop:
            status = 0
        self.status = status
        if "EXIT" in self.state.traps:
            text = self.state.traps.pop("EXIT")
            try:
                await self.eval(text)
            except ExitShell as leave:
                return leave.status
            except (BreakLoop, ReturnFrom):
                return status
        return status

    async def _subshell(self, node: Subshell, final: bool) -> int:
        process = await self.fork()
        job = self.jobs.add([process], "")
        self.jobs.to_front(job)
        self.begin(process, node.body)
        return await self.checked(await self.jobs.foreground(job))

    async def substitute(self, node: Node) -> str:
        """Run ``$(...)`` and return what it printed."""
        capture = Capture(1 << 20)
        if isinstance(node, Redirected | Simple) and (data := await self._file_only(node)) is not None:
            return data
        process = await self.fork({**self.process.fds, 1: capture})
        self.begin(process, node)
        self.substituted = await process.wait()
        text = bytes(capture.data).replace(b"\0", b"").decode("utf-8", "surrogateescape")
        return text.rstrip("\n")

    async def _file_only(self, node: Node) -> str | None:
        """Read the file of ``$(< file)``."""
        if not isinstance(node, Simple) or node.words or len(node.redirects) != 1 or node.redirects[0].op != "<":
            return None
        try:
            data = self.process.view.read(await self.expander.value(node.redirects[0].target))
        except FileError as error:
            await self.complain(f"{error.path}: {error.text}")
            return ""
        return data[: 1 << 20].replace(b"\0", b"").decode("utf-8", "surrogateescape").rstrip("\n")

    async def process_substitution(self, node: Node, direction: str) -> str:
        """Start the command of ``<(...)`` and return the path that reads from it."""
        pipe = Pipe()
        mine, theirs = (pipe.reader, pipe.writer) if direction == "<" else (pipe.writer, pipe.reader)
        process = await self.fork({**self.process.fds, (1 if direction == "<" else 0): theirs})
        self.begin(process, node)
        number = max([62, *self.process.fds]) + 1
        self.process.fds[number] = mine.share()
        self.temporary.append(number)
        return f"/dev/fd/{number}"

    async def background(self, node: Node, source: str) -> None:
        """Start a command with ``&``; ``%1 &`` lets a job go on."""
        if self.interactive and re.fullmatch(r"%\S+", source):
            await self.eval(f"bg {source}")
            return
        fds = dict(self.process.fds)
        if not self.interactive:
            fds[0] = Bytes(b"")
        process = await self.fork(fds)
        if not self.interactive:
            process.handlers |= {"INT": None, "QUIT": None}
        job = self.jobs.add([process], source, background=True)
        self.begin(process, node)
        self.last_background = process.pid
        if self.interactive:
            await self.process.error(f"[{job.number}] {process.pid}\n")
        self.status = 0
