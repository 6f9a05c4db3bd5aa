"""The interpreter: runs commands on the event loop, each program and subshell a process of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Coroutine
from functools import lru_cache
from typing import Any, NoReturn, TypeVar

from kubesim.shell import dialects, patterns
from kubesim.shell.conditions import Conditions
from kubesim.shell.errors import BrokenPipe, FileError, StartError
from kubesim.shell.expand import Expander
from kubesim.shell.handles import Bytes, Capture, Handle, Pipe
from kubesim.shell.jobs import Job, Jobs
from kubesim.shell.machine import DEFAULT_PATH, Process
from kubesim.shell.nodes import (
    AndOr,
    Array,
    Calculation,
    Case,
    Condition,
    CountingFor,
    For,
    Function,
    Group,
    If,
    Node,
    Pipeline,
    Redirect,
    Redirected,
    Sequence,
    Simple,
    Subshell,
    Text,
    While,
    Word,
)
from kubesim.shell.parse import parse
from kubesim.shell.programs import Program, find
from kubesim.shell.quoting import quote
from kubesim.shell.state import BreakLoop, ExitShell, ReturnFrom, ShellError, State, Variable
from kubesim.shell.syntax import ScriptError
from kubesim.shell.values import Values

MOST_CALLS = 1000
LONG = 4096  # characters of a script that take a while to parse
FLAT = 10  # so many commands may be nested before Python's stack is begun anew, in a task
_ASSIGN = re.compile(r"([A-Za-z_]\w*)(?:\[(.*?)\])?(\+?)=", re.DOTALL)
Assignment = tuple[str, Word | None, bool, Word]
Result = TypeVar("Result")


class Shell(Values):
    """One shell process, or a subshell of one."""

    def __init__(self, process: Process, dialect: str, name: str, state: State | None = None) -> None:
        super().__init__(process, dialect, name, state or State())
        self.interactive = False
        self.expander: Expander = Expander(self)
        self.conditions = Conditions(self)
        self.jobs = Jobs(self)
        self.unchecked = 0  # how many conditions we are inside of: set -e does not count there
        self.loops = 0
        self.calls = 0
        self.depth = 0
        self.pending: list[str] = []
        self.woken = asyncio.Event()
        self.sourced = 0
        self.substituted = 0
        self.subshell = False
        self.typed: list[str] = []
        self.leaving = False  # exit was typed

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
            return parse(text, self.dialect, aliases)
        return await asyncio.to_thread(parse, text, self.dialect, dict(aliases) if aliases else None)

    async def _broken(self, text: str, error: ScriptError, where: str = "") -> int:
        lines = text.split("\n")
        for count in range(min(error.line, len(lines)) - 1, 0, -1):
            try:
                node = parse("\n".join(lines[:count]) + "\n", self.dialect)
            except ScriptError:
                continue
            await self.execute(node)
            break
        await self.report_syntax(error, lines, where)
        self.status = 2
        return 2

    async def report_syntax(self, error: ScriptError, lines: list[str], where: str = "") -> None:
        """Print a syntax error."""
        message = error.text(self.dialect, "")
        line = error.line
        if self.dialect == "bash":
            here = where or ("-c" if self.command_string else "")
            ended = error.kind == "end" and not self.interactive
            place = "" if self.interactive else f"{here}: " if here else ""
            numbered = "" if self.interactive else f"line {len(lines) + 1 if ended else line}: "
            start = f"{self.name}: {place}{numbered}"
            await self.process.error(start + message + "\n")
            if error.kind == "unexpected" and not self.interactive:
                await self.process.error(f"{start}`{lines[min(line, len(lines)) - 1]}'\n")
            return
        self.line = line
        await self.complain(message, where)

    async def eval(self, text: str, where: str = "") -> int:
        """Run text in this shell, as ``eval`` does."""
        try:
            node = await self.parsed(text)
        except ScriptError as error:
            await self.report_syntax(error, text.split("\n"), where)
            self.status = 2
            if self.dialect != "bash" and not self.interactive:
                raise ExitShell(2) from error
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

    async def _sequence(self, node: Sequence, final: bool) -> int:
        last = len(node.items) - 1
        for index, (item, background, source) in enumerate(node.items):
            if background:
                await self.background(item, source)
            else:
                await self.execute(item, final=final and index == last and isinstance(item, Simple))
        return self.status if node.items else 0

    async def _andor(self, node: AndOr, final: bool) -> int:
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

    async def _group(self, node: Group, final: bool) -> int:
        return await self.execute(node.body)

    async def _redirected(self, node: Redirected, final: bool) -> int:
        saved: list[tuple[int, Handle | None]] = []
        try:
            if not await self.redirect(node.redirects, saved):
                return await self.checked(2 if self.dialect == "dash" else 1)
            return await self.execute(node.body)
        finally:
            self.restore(saved)

    async def _condition(self, node: Condition, final: bool) -> int:
        self.line = node.line
        return await self.checked(await self.conditions.double(node))

    async def _calculation(self, node: Calculation, final: bool) -> int:
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

    async def _if(self, node: If, final: bool) -> int:
        for condition, body in node.branches:
            if await self.test(condition):
                return await self.execute(body)
        return await self.execute(node.other) if node.other else 0

    async def _while(self, node: While, final: bool) -> int:
        status = 0
        self.loops += 1
        try:
            while await self.test(node.condition) != node.until:
                await self.process.tick()
                again, status = await self._turn(node.body)
                if not again:
                    break
        except BreakLoop as stop:
            self._outer(stop)
            status = 0
        finally:
            self.loops -= 1
        return status

    async def _turn(self, body: Node) -> tuple[bool, int]:
        """Run a loop's body: whether to go on, and the status."""
        try:
            status = await self.execute(body)
        except BreakLoop as stop:
            if stop.count > 1 and self.loops > 1:
                raise BreakLoop(stop.count - 1, again=stop.again) from None
            return stop.again, 0
        return True, status

    def _outer(self, stop: BreakLoop) -> None:
        """Pass on a break that ended a loop's condition, or the loops around it."""
        if self.loops > 1:
            raise stop

    async def _for(self, node: For, final: bool) -> int:
        if node.words is None:
            values = list(self.state.positional)
        else:
            values = await self._guarded(self.expander.fields(node.words))
        status = 0
        self.loops += 1
        try:
            for value in values:
                await self.process.tick()
                await self._guarded(self._set(node.name, value))
                again, status = await self._turn(node.body)
                if not again:
                    break
        finally:
            self.loops -= 1
        return status

    async def _set(self, name: str, value: str) -> None:
        self.state.set(name, value)

    async def _countingfor(self, node: CountingFor, final: bool) -> int:
        status = 0
        self.loops += 1
        try:
            await self._guarded(self.expander.calculate(node.start))
            while not node.condition or await self._guarded(self.expander.calculate(node.condition)) != 0:
                await self.process.tick()
                again, status = await self._turn(node.body)
                if not again:
                    break
                await self._guarded(self.expander.calculate(node.step))
        finally:
            self.loops -= 1
        return status

    async def _case(self, node: Case, final: bool) -> int:
        subject = await self._guarded(self.expander.value(node.subject))
        through = False
        status = 0
        for choices, body, end in node.items:
            hit = through or await self._choose(choices, subject)
            if not hit:
                continue
            status = await self.execute(body)
            if not end:
                return status
            through = end == ";&"
        return status

    async def _choose(self, choices: tuple[Word, ...], subject: str) -> bool:
        extended = "extglob" in self.state.shopt
        for word in choices:
            pattern = await self._guarded(self.expander.pattern(word))
            if patterns.matches(pattern, subject, extended=extended):
                return True
        return False

    async def _function(self, node: Function, final: bool) -> int:
        self.state.functions[node.name] = (node.body, node.source)
        return 0

    async def _guarded(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Await an expansion; its errors end the shell, or the command of an interactive one."""
        try:
            return await work
        except ShellError as error:
            await self.fault(error)

    async def fault(self, error: ShellError) -> NoReturn:
        """Print an expansion's error and leave."""
        name, readonly, _ = error.text.partition("\0")
        text = f"{name}: {dialects.READONLY[self.dialect]}" if readonly else error.text
        await self.complain(text)
        self.status = 1 if self.dialect == "bash" and readonly else error.status
        raise ExitShell(self.status)

    async def checked(self, status: int) -> int:
        """Leave if ``set -e`` wants that for this status."""
        self.status = status
        if status and not self.unchecked:
            if "ERR" in self.state.traps and self.dialect == "bash":
                await self.run_trap("ERR")
            if "errexit" in self.state.options:
                raise ExitShell(status)
        return status

    # simple commands

    async def _simple(self, node: Simple, final: bool) -> int:
        await self.process.tick(32)
        self.line = node.line
        assigns, words = leading(node.words, self.dialect == "bash")
        self.substituted = 0
        argv = await self._guarded(self._arguments(words))
        saved: list[tuple[int, Handle | None]] = []
        try:
            if not argv:
                return await self.checked(await self._bare(assigns, node, saved))
            return await self.checked(await self._command(argv, assigns, node, saved, final=final))
        finally:
            self.restore(saved)

    async def _arguments(self, words: tuple[Word, ...]) -> list[str]:
        """Expand a command's words; those of declaring builtins are assignments and not split."""
        if words and len(words) > 1 and _declares(words[0]):
            fixed: list[str] = await self.expander.fields(words[:1])
            for word in words[1:]:
                found = assignment(word)
                if found:
                    fixed.append(await self._declared(found))
                else:
                    fixed.extend(await self.expander.fields((word,)))
            return fixed
        return await self.expander.fields(words)

    async def _declared(self, found: Assignment) -> str:
        name, index, append, value = found
        plus = "+" if append else ""
        if value and isinstance(value[0], Array):
            items = await self.array_items(value[0], {}, associative=False)
            return f"{name}{plus}=\0" + "\0".join(f"{key}\1{text}" for key, text in items.items())
        where = f"[{await self.expander.value(index)}]" if index else ""
        return f"{name}{where}{plus}={await self.expander.value(value)}"

    async def _bare(self, assigns: list[Assignment], node: Simple, saved: list[tuple[int, Handle | None]]) -> int:
        if not await self.redirect(node.redirects, saved):
            return 2 if self.dialect == "dash" else 1
        for each in assigns:
            await self._guarded(self.assign(each))
        return self.substituted

    async def assign(self, each: Assignment, *, exported: bool = False) -> str:
        """Do one assignment; returns the value."""
        name, index, append, word = each
        if word and isinstance(word[0], Array):
            await self._assign_array(name, word[0], append=append)
            return ""
        value = await self.expander.value(word)
        place = self.index(name, await self.expander.value(index)) if index else None
        variable = self.state.variables.get(name)
        if append:
            old = self.element(name, place) if place is not None else self.state.get(name)
            if variable and variable.integer:
                value = str(self.expander.arithmetic(f"({old or 0})+({value or 0})"))
            else:
                value = (old or "") + value
        elif variable and variable.integer:
            value = str(self.expander.arithmetic(value))
        if "xtrace" in self.state.options and not exported:
            await self.trace([f"{name}={quote(value) if value else ''}"], raw=True)
        self.state.set(name, value, index=place)
        return value

    async def _assign_array(self, name: str, array: Array, *, append: bool) -> None:
        variable = self.state.variable(name)
        start = variable.items() if append else {}
        items = await self.array_items(array, start, associative=variable.associative)
        self.state.charge(sum(map(len, items.values())) - sum(map(len, variable.items().values())))
        self.state.put_items(variable, items)

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
        special = name in self.builtins.special and name not in self.state.functions
        if not await self.redirect(node.redirects, saved):
            if special and self.dialect != "bash" and not self.interactive:
                raise ExitShell(2)
            return 2 if self.dialect == "dash" else 1
        if "xtrace" in self.state.options:
            await self._trace_command(argv, assigns)
        if name in self.state.functions or name in self.builtins.table:
            return await self._inside(argv, assigns, saved, special=special)
        env = self.state.environment()
        for each in assigns:
            env[each[0]] = await self._guarded(self._temporary_value(each))
        return await self._outside(argv, env, node, final=final)

    async def _temporary_value(self, each: Assignment) -> str:
        return await self.expander.value(each[3])

    async def _trace_command(self, argv: list[str], assigns: list[Assignment]) -> None:
        shown = [f"{each[0]}={quote(await self.expander.value(each[3]))}" for each in assigns]
        if self.dialect == "bash":
            for text in shown:
                await self.trace([text], raw=True)
            shown = []
        words = argv if self.dialect == "dash" else [self._traced(word) for word in argv]
        await self.trace([*shown, *words], raw=True)

    def _traced(self, word: str) -> str:
        if word in ("]", "[", "]]") and not (self.dialect == "bash" or word == "["):
            return word
        return quote(word, always=not word)

    async def trace(self, words: list[str], *, raw: bool = False) -> None:
        """Print a line of ``set -x``."""
        mark = self.state.get("PS4")
        await self.process.error(f"{'+ ' if mark is None else mark}{' '.join(words)}\n")

    async def _inside(
        self, argv: list[str], assigns: list[Assignment], saved: list[tuple[int, Handle | None]], *, special: bool
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
            if not (special and self.dialect != "bash"):
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
            status = await self.builtins.table[argv[0]](self, argv)
            await self.process.flush()
        except ShellError as error:
            name, readonly, _ = error.text.partition("\0")
            text = f"{name}: {dialects.READONLY[self.dialect]}" if readonly else error.text
            await self.complain(text.lstrip("\1"), "" if text[:1] == "\1" else argv[0])
            if error.fatal and argv[0] in self.builtins.special and self.dialect != "bash" and not self.interactive:
                raise ExitShell(error.status) from error
            return error.status
        except FileError as error:
            self.process.forget()
            return await self._write_error(argv[0], error)
        return status

    async def _write_error(self, name: str, error: FileError) -> int:
        texts = {"bash": f"{name}: write error: {error.text}", "dash": f"{name}: {name}: I/O error"}
        if self.dialect == "ash":
            await self.process.error(f"{self.name}: write error: {error.text}\n")
        else:
            await self.complain(texts[self.dialect])
        return 1

    async def call(self, argv: list[str]) -> int:
        """Call a function."""
        if self.calls >= MOST_CALLS:
            if self.dialect != "bash":
                self.process.die("SEGV")
                await asyncio.sleep(0)
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

    # programs

    async def _outside(self, argv: list[str], env: dict[str, str], node: Simple, *, final: bool) -> int:
        program = await self.program(argv)
        if program is None:
            return self.status
        if final and not self.state.traps and not self.interactive:
            return await self.become(program, env)
        try:
            process = self.process.child(program, env=env)
        except FileError as error:
            await self.complain(dialects.FORK[self.dialect].format(error=error.text))
            return 254 if self.dialect == "bash" else 2
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
                shell = "bash" if self.dialect == "bash" else "sh"
                return Program(shell, self.dialect, path, (shell, *argv))
        self.status = error.code
        await self.complain(dialects.not_found(self.dialect, argv[0], error))
        return None

    async def become(self, program: Program, env: dict[str, str]) -> int:
        """Replace this process by a program."""
        process = self.process
        process.program, process.argv, process.env = program, list(program.argv), env
        process.handlers = {name: None for name, handler in process.handlers.items() if handler is None}
        status = await process.machine.tools[program.tool](process)
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
        try:
            job = self._pipe(node)
        except FileError as error:
            await self.complain(dialects.FORK[self.dialect].format(error=error.text))
            return 254
        status = await self.jobs.foreground(job)
        statuses = [process.status or 0 for process in job.processes]
        self.state.variables["PIPESTATUS"] = Variable({index: str(each) for index, each in enumerate(statuses)})
        if "pipefail" in self.state.options:
            status = next((each for each in reversed(statuses) if each), 0)
        if node.negated:
            return int(not status)
        return await self.checked(status)

    def _pipe(self, node: Pipeline) -> Job:
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
            started.append((self.fork(fds), part))
            source = pipe.reader if pipe else None
        job = self.jobs.add([process for process, _ in started], "")
        self.jobs.to_front(job)
        for process, part in started:
            self.begin(process, part)
        return job

    def fork(self, fds: dict[int, Handle] | None = None) -> Process:
        """Make the process of a subshell."""
        program = Program(self.process.program.tool, self.process.program.flavour, "", tuple(self.process.argv))
        return self.process.child(program, env=self.state.environment(), fds=fds)

    def begin(self, process: Process, node: Node) -> None:
        """Run a command in a subshell."""
        state = self.state.copy()
        state.traps = {name: text for name, text in state.traps.items() if not text}
        state.scopes = state.scopes or []
        inner = Shell(process, self.dialect, self.name, state)
        inner.builtins = self.builtins
        inner.status, inner.line, inner.last_background = self.status, self.line, self.last_background
        inner.unchecked = self.unchecked
        inner.loops, inner.calls, inner.names = 0, self.calls, list(self.names)
        inner.subshell, inner.first, inner.began = True, self.first, self.began
        inner.command_string = self.command_string
        inner.line_offset, inner.named = self.line_offset, self.named

        async def main(process: Process) -> int:
            return await inner.finish(inner.execute(node, final=True))

        process.start(main)

    async def finish(self, work: Awaitable[int]) -> int:
        """Await a shell's whole work, then its EXIT trap; returns the status."""
        try:
            status = await work
        except ExitShell as leave:
            status = leave.status
        except ReturnFrom as leave:
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
        try:
            process = self.fork()
        except FileError as error:
            await self.complain(dialects.FORK[self.dialect].format(error=error.text))
            return 254
        job = self.jobs.add([process], "")
        self.jobs.to_front(job)
        self.begin(process, node.body)
        return await self.checked(await self.jobs.foreground(job))

    async def substitute(self, node: Node) -> str:
        """Run ``$(...)`` and return what it printed."""
        capture = Capture(1 << 20)
        if isinstance(node, Redirected | Simple) and (data := await self._file_only(node)) is not None:
            return data
        try:
            process = self.fork({**self.process.fds, 1: capture})
        except FileError as error:
            raise ShellError(dialects.FORK[self.dialect].format(error=error.text), 254) from error
        self.begin(process, node)
        self.substituted = await process.wait()
        text = bytes(capture.data).replace(b"\0", b"").decode("utf-8", "surrogateescape")
        return text.rstrip("\n")

    async def _file_only(self, node: Node) -> str | None:
        """Read the file of ``$(< file)``."""
        if not isinstance(node, Simple) or node.words or len(node.redirects) != 1 or node.redirects[0].op != "<":
            return None
        if self.dialect == "dash":
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
        process = self.fork({**self.process.fds, (1 if direction == "<" else 0): theirs})
        self.begin(process, node)
        number = max([62, *self.process.fds]) + 1
        self.process.fds[number] = mine.share()
        self.temporary.append(number)
        return f"/dev/fd/{number}"

    async def background(self, node: Node, source: str) -> None:
        """Start a command with ``&``."""
        fds = dict(self.process.fds)
        if not self.interactive:
            fds[0] = Bytes(b"")
        try:
            process = self.fork(fds)
        except FileError as error:
            await self.complain(dialects.FORK[self.dialect].format(error=error.text))
            self.status = 254
            return
        if not self.interactive:
            process.handlers |= {"INT": None, "QUIT": None}
        job = self.jobs.add([process], source, background=True)
        self.begin(process, node)
        self.last_background = process.pid
        if self.interactive:
            await self.process.error(f"[{job.number}] {process.pid}\n" if self.dialect == "bash" else "")
        self.status = 0

    # redirections

    async def redirect(self, redirects: tuple[Redirect, ...], saved: list[tuple[int, Handle | None]]) -> bool:
        """Open what redirections name in place of this process's descriptors; False after a message."""
        for each in redirects:
            try:
                await self._open(each, saved)
            except FileError as error:
                creating = each.op.startswith((">", "&>"))
                await self.complain(dialects.cannot_open(self.dialect, error, creating=creating))
                return False
            except ShellError as error:
                await self.fault(error)
        return True

    async def _open(self, each: Redirect, saved: list[tuple[int, Handle | None]]) -> None:
        op = each.op
        if op in ("<<", "<<<"):
            text = await self.expander.value(each.target)
            data = (text + ("\n" if op == "<<<" else "")).encode("utf-8", "surrogateescape")
            self.put(0 if each.fd < 0 else each.fd, Bytes(data), saved)
            return
        fields = await self.expander.fields((each.target,))
        name = fields[0] if len(fields) == 1 else await self.expander.value(each.target)
        if len(fields) != 1 and self.dialect == "bash":
            raise ShellError(f"{each.source}: ambiguous redirect", 1)
        fd = each.fd if each.fd >= 0 else int(op.startswith((">", "&")))
        if op in ("<&", ">&"):
            self._duplicate(each, fd, name, saved)
            return
        mode = {"<": "r", ">>": "a", "&>>": "a", "<>": "+"}.get(op, "w")
        if mode == "w" and op == ">" and "noclobber" in self.state.options and self.is_file(name):
            raise FileError("EEXIST", name)
        handle = self.process.open(name, mode)
        self.put(fd, handle, saved)
        if op in ("&>", "&>>"):
            self.put(2, handle, saved)

    def _duplicate(self, each: Redirect, fd: int, name: str, saved: list[tuple[int, Handle | None]]) -> None:
        if name == "-":
            self.put(fd, None, saved)
        elif name.rstrip("-").isdecimal():
            number = int(name.rstrip("-"))
            if number not in self.process.fds:
                raise FileError("EBADF", name)
            self.put(fd, self.process.fds[number], saved)
        elif each.fd < 0 and each.op == ">&" and self.dialect == "bash":
            handle = self.process.open(name, "w")
            self.put(1, handle, saved)
            self.put(2, handle, saved)
        else:
            bad = name if self.dialect == "bash" else ""
            raise ShellError(f"{bad}: ambiguous redirect" if bad else "Bad fd number", 2)


async def fresh(work: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine on a stack of its own."""
    return await asyncio.get_running_loop().create_task(work)


@lru_cache(maxsize=4096)
def assignment(word: Word) -> Assignment | None:
    """Return a word's name, index, whether it appends, and its value, if it is an assignment."""
    if not word or not isinstance(word[0], Text) or word[0].quoted:
        return None
    match = _ASSIGN.match(word[0].value)
    if match:
        rest = word[0].value[match.end() :]
        value = (Text(rest), *word[1:]) if rest else word[1:]
        index = (Text(match[2], True),) if match[2] is not None else None
        return match[1], index, bool(match[3]), value
    return _indexed(word, re.match(r"([A-Za-z_]\w*)\[(.*)", word[0].value, re.DOTALL))


def _indexed(word: Word, match: re.Match[str] | None) -> Assignment | None:
    """Read ``a[$i]=x``, whose index has parts."""
    if not match:
        return None
    index: list[Any] = [Text(match[2], True)] if match[2] else []
    for at, part in enumerate(word[1:], 1):
        if isinstance(part, Text) and not part.quoted:
            end = re.match(r"(.*?)\](\+?)=", part.value, re.DOTALL)
            if end:
                if end[1]:
                    index.append(Text(end[1], True))
                rest = part.value[end.end() :]
                value = (Text(rest), *word[at + 1 :]) if rest else word[at + 1 :]
                return match[1], tuple(index), bool(end[2]), value
        index.append(part)
    return None


@lru_cache(maxsize=4096)
def leading(words: tuple[Word, ...], full: bool) -> tuple[list[Assignment], tuple[Word, ...]]:
    """Part a command's assignments from its words; only ``full`` shells append and have arrays."""
    assigns: list[Assignment] = []
    for index, word in enumerate(words):
        found = assignment(word)
        if not found or not full and (found[1] or found[2]):
            return assigns, words[index:]
        assigns.append(found)
    return assigns, ()


def _declares(word: Word) -> bool:
    first = word[0] if word else None
    return isinstance(first, Text) and first.value in ("export", "readonly", "local", "declare", "typeset", "alias")


__all__ = ["BrokenPipe", "Shell"]
