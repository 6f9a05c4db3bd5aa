"""The interpreter: runs commands on the event loop, each program and subshell a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from itertools import chain, repeat
from typing import Any

from kubesim.shell import nodes, patterns
from kubesim.shell.conditions import double
from kubesim.shell.errors import FileError
from kubesim.shell.expand import Expander
from kubesim.shell.handles import Handle
from kubesim.shell.jobs import Jobs
from kubesim.shell.machine import Process
from kubesim.shell.nodes import Node, ScriptError, Simple, Word
from kubesim.shell.parse import parse
from kubesim.shell.state import BreakLoop, OutOfMemory, ReturnFrom, ShellError, State, Variable
from kubesim.shell.subshells import Subshells
from kubesim.shell.words import Assignment, leading

MOST_CALLS = 1000
LONGEST_LINE = 1 << 16
LONG = 4096  # characters of a script that take a while to parse
FLAT = 10  # so many commands may be nested before Python's stack is begun anew, in a task


class Shell(Subshells):
    """One shell process, or a subshell of one."""

    def __init__(self, process: Process, dialect: str, name: str, state: State | None = None) -> None:
        super().__init__(process, dialect, name, state or State())
        self.expander: Expander = Expander(self)
        self.jobs = Jobs(self)
        self.depth = 0
        self.pending: list[str] = []
        self.woken = asyncio.Event()
        self.sourced = 0
        self.typed: list[str] = []
        self.completed: dict[str, str] = {}  # by ``complete``: what completes the words of a command
        self.leaving = False  # exit was typed
        self.warned = False  # of jobs that stand still, by the exit before

    # running

    async def script(self, text: str) -> int:
        """Run a script; what stands before a syntax error runs, as shells read by lines."""
        try:
            node = await self.parsed(text)
        except ScriptError as error:
            return await self._broken(text, error)
        return await self.execute(node, final=self.command_string and not self.interactive)

    async def parsed(self, text: str) -> Node:
        """Parse a script, a long one beside the event loop; raises ScriptError."""
        aliases = self.state.aliases if self.interactive or "expand_aliases" in self.state.shopt else None
        if len(text) < LONG:
            return parse(text, aliases)
        return await asyncio.to_thread(parse, text, dict(aliases) if aliases else None)

    async def _broken(self, text: str, error: ScriptError, where: str = "") -> int:
        lines = text.split("\n")
        for count in range(min(error.line, len(lines)) - 1, 0, -1):
            try:
                node = parse("\n".join(lines[:count]) + "\n")
            except ScriptError:
                continue
            await self.execute(node)
            break
        await self.report_syntax(error, lines, where)
        self.status = 2
        return 2

    async def report_syntax(self, error: ScriptError, lines: list[str], where: str = "") -> None:
        """Print a syntax error."""
        message = error.text()
        line = error.line
        here = where or ("-c" if self.command_string else "")
        ended = error.kind == "end" and not self.interactive
        place = "" if self.interactive else f"{here}: " if here else ""
        numbered = "" if self.interactive else f"line {len(lines) + 1 if ended else line}: "
        start = f"{self.name}: {place}{numbered}"
        await self.process.error(start + message + "\n")
        if error.kind == "unexpected" and not self.interactive:
            await self.process.error(f"{start}`{lines[min(line, len(lines)) - 1]}'\n")

    async def eval(self, text: str, where: str = "") -> int:
        """Run text in this shell, as ``eval`` does."""
        try:
            node = await self.parsed(text)
        except ScriptError as error:
            await self.report_syntax(error, text.split("\n"), where)
            self.status = 2
            return 2
        return await self.execute(node)

    async def execute(self, node: Node, *, final: bool = False) -> int:
        """Run a command; returns and keeps its status."""
        self.depth += 1
        try:
            run = getattr(self, "_" + type(node).__name__.lower())(node, final)
            if self.depth % FLAT == 0:
                self.status = await fresh(run)
            else:
                self.status = await run
        finally:
            self.depth -= 1
        if self.pending:
            await self.run_traps()
        return self.status

    # simple commands

    async def _simple(self, node: Simple, final: bool) -> int:
        await self.process.tick(32)
        self.line = node.line
        assigns, words = leading(node.words)
        self.substituted = 0
        argv = await self._guarded(self._arguments(words))
        saved: list[tuple[int, Handle | None]] = []
        try:
            if not argv:
                return await self.checked(await self._bare(assigns, node, saved))
            return await self.checked(await self._command(argv, assigns, node, saved, final=final))
        finally:
            self.restore(saved)

    async def _command(
        self,
        argv: list[str],
        assigns: list[Assignment],
        node: Simple,
        saved: list[tuple[int, Handle | None]],
        *,
        final: bool,
    ) -> int:
        name = argv[0]
        if not await self.redirect(node.redirects, saved):
            return 1
        if "xtrace" in self.state.options:
            await self._trace_command(argv, assigns)
        if name in self.state.functions or name in self.builtins:
            return await self._inside(argv, assigns, saved)
        if name.startswith("%") and self.interactive:
            return await self._inside(["fg", *argv], assigns, saved)
        env = self.state.environment()
        for each in assigns:
            env[each[0]] = await self._guarded(self._temporary_value(each))
        return await self._outside(argv, env, node, final=final)

    async def _inside(
        self, argv: list[str], assigns: list[Assignment], saved: list[tuple[int, Handle | None]]
    ) -> int:
        """Run a function or builtin with assignments that hold as long as it runs."""
        before: dict[str, Variable | None] = {}
        try:
            for each in assigns:
                old = self.state.variables.get(each[0])
                before.setdefault(each[0], old.copy() if old else None)
                await self._guarded(self.assign(each, exported=True))
                self.state.variables[each[0]].exported = True
            if argv[0] in self.state.functions:
                return await self.call(argv)
            return await self.builtin(argv, saved)
        finally:
            for name, variable in before.items():
                self.state.variables.pop(name, None)
                if variable:
                    self.state.variables[name] = variable

    async def builtin(self, argv: list[str], saved: list[tuple[int, Handle | None]] | None = None) -> int:
        """Run a builtin."""
        if argv[0] == "exec" and saved is not None and len(argv) == 1:
            self.keep(saved)
            return 0
        try:
            status = await self.builtins[argv[0]](self, argv)
            await self.process.flush()
        except ShellError as error:
            if isinstance(error, OutOfMemory):
                await self.process.outgrow()
            await self.complain(error.text, argv[0])
            return error.status
        except FileError as error:
            self.process.forget()
            await self.complain(f"{argv[0]}: write error: {error.text}")
            return 1
        return status

    async def call(self, argv: list[str]) -> int:
        """Call a function."""
        if self.calls >= MOST_CALLS:
            text = f"{argv[0]}: maximum function nesting level exceeded ({MOST_CALLS})"
            await self.fault(ShellError(text, 1))
        body, _ = self.state.functions[argv[0]]
        positional, loops = self.state.positional, self.loops
        self.state.positional, self.loops = argv[1:], 0
        self.state.scopes.append({})
        self.calls += 1
        self.names.append(argv[0])
        try:
            return await self.execute(body)
        except ReturnFrom as back:
            return back.status
        except BreakLoop:
            return 0
        finally:
            self.names.pop()
            self.calls -= 1
            self.state.leave()
            self.state.positional, self.loops = positional, loops

    # compound commands

    async def _sequence(self, node: nodes.Sequence, final: bool) -> int:
        last = len(node.items) - 1
        for index, (item, background, source) in enumerate(node.items):
            if background:
                await self.background(item, source)
            else:
                await self.execute(item, final=final and index == last and isinstance(item, Simple))
        return self.status if node.items else 0

    async def _andor(self, node: nodes.AndOr, final: bool) -> int:
        self.unchecked += 1
        try:
            status = await self.execute(node.first)
            for index, (operator, command) in enumerate(node.rest):
                last = index == len(node.rest) - 1
                if (status == 0) != (operator == "&&"):
                    continue
                self.unchecked -= last
                try:
                    status = await self.execute(command)
                finally:
                    self.unchecked += last
        finally:
            self.unchecked -= 1
        return status

    async def _redirected(self, node: nodes.Redirected, final: bool) -> int:
        saved: list[tuple[int, Handle | None]] = []
        try:
            if not await self.redirect(node.redirects, saved):
                return await self.checked(1)
            return await self.execute(node.body)
        finally:
            self.restore(saved)

    async def _calculation(self, node: nodes.Calculation, final: bool) -> int:
        self.line = node.line
        try:
            return await self.checked(int(await self.expander.calculate(node.text) == 0))
        except ShellError as error:
            await self.complain(f"((: {error.text}")
            return 1

    async def test(self, node: Node) -> bool:
        """Run a condition."""
        self.unchecked += 1
        try:
            return await self.execute(node) == 0
        finally:
            self.unchecked -= 1

    async def _if(self, node: nodes.If, final: bool) -> int:
        for condition, body in node.branches:
            if await self.test(condition):
                return await self.execute(body)
        return await self.execute(node.other) if node.other else 0

    async def _loop(self, more: Callable[[], Awaitable[bool]], body: Node) -> int:
        """Run a body as long as there is more to do."""
        status = 0
        self.loops += 1
        try:
            while True:
                await self.process.tick()
                try:
                    if not await more():
                        return status
                    status = await self.execute(body)
                except BreakLoop as stop:
                    status = 0
                    if stop.count > 1 and self.loops > 1:
                        raise BreakLoop(stop.count - 1, again=stop.again) from None
                    if not stop.again:
                        return status
        finally:
            self.loops -= 1

    async def _while(self, node: nodes.While, final: bool) -> int:
        async def more() -> bool:
            return await self.test(node.condition) != node.until

        return await self._loop(more, node.body)

    async def _for(self, node: nodes.For, final: bool) -> int:
        words = node.words
        values = iter([*self.state.positional] if words is None else await self._guarded(self.expander.fields(words)))

        async def more() -> bool:
            value = next(values, None)
            try:
                if value is not None:
                    self.state.set(node.name, value)
            except ShellError as error:
                await self.fault(error)
            return value is not None

        return await self._loop(more, node.body)

    async def _countingfor(self, node: nodes.CountingFor, final: bool) -> int:
        steps = chain([node.start], repeat(node.step))

        async def more() -> bool:
            await self._guarded(self.expander.calculate(next(steps)))
            return not node.condition or await self._guarded(self.expander.calculate(node.condition)) != 0

        return await self._loop(more, node.body)

    async def _case(self, node: nodes.Case, final: bool) -> int:
        subject = await self._guarded(self.expander.value(node.subject))
        for choices, body in node.items:
            if await self._choose(choices, subject):
                return await self.execute(body)
        return 0

    async def _choose(self, choices: tuple[Word, ...], subject: str) -> bool:
        extended = "extglob" in self.state.shopt
        for word in choices:
            pattern = await self._guarded(self.expander.pattern(word))
            if patterns.matches(pattern, subject, extended=extended):
                return True
        return False

    async def _function(self, node: nodes.Function, final: bool) -> int:
        self.state.functions[node.name] = (node.body, node.source)
        return 0

    async def _condition(self, node: nodes.Condition, final: bool) -> int:
        self.line = node.line
        return await self.checked(await double(self, node))


async def fresh(work: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine on a stack of its own."""
    return await asyncio.get_running_loop().create_task(work)


async def read_line(process: Process) -> str:
    """Return the next line of standard input. Byte by byte: the rest is for others."""
    data = bytearray()
    while not data.endswith(b"\n") and len(data) < LONGEST_LINE and (byte := await process.read(1)):
        data += byte
    return data.decode("utf-8", "surrogateescape")
