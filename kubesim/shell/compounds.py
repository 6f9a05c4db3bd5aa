"""Compound commands: lists, conditions, loops, case, functions."""

from __future__ import annotations

from abc import ABC, abstractmethod

from kubesim.shell import patterns
from kubesim.shell.commands import Commands
from kubesim.shell.handles import Handle
from kubesim.shell.nodes import (
    AndOr,
    Calculation,
    Case,
    CountingFor,
    For,
    Function,
    Group,
    If,
    Node,
    Redirected,
    Sequence,
    Simple,
    While,
    Word,
)
from kubesim.shell.state import BreakLoop, ShellError

LONGEST_LINE = 1 << 16


class Compounds(Commands, ABC):
    """The control flow of one shell."""

    @abstractmethod
    async def execute(self, node: Node, *, final: bool = False) -> int:
        """Run a command; the interpreter does."""

    @abstractmethod
    async def background(self, node: Node, source: str) -> None:
        """Start a command with ``&``; ``Subshells`` does."""

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
        if node.asks:
            return await self._select(node, values)
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

    async def _select(self, node: For, values: list[str]) -> int:
        """Let somebody choose among words, again and again until the body breaks or nothing more is typed."""
        menu = "".join(f"{number}) {value}\n" for number, value in enumerate(values, 1))
        status, shown = 0, False
        self.loops += 1
        try:
            while values:
                prompt = self.state.get("PS3")
                await self.process.error(("" if shown else menu) + ("#? " if prompt is None else prompt))
                line = await self._typed()
                if line is None:
                    await self.process.write("\n")
                    return 1
                self.state.set("REPLY", line)
                shown = bool(line.strip())
                if not shown:
                    continue
                number = int(line) if line.strip().isdecimal() else 0
                await self._guarded(self._set(node.name, values[number - 1] if 0 < number <= len(values) else ""))
                again, status = await self._turn(node.body)
                if not again:
                    break
        finally:
            self.loops -= 1
        return status

    async def _typed(self) -> str | None:
        """Return a line of standard input; None at its end. Byte by byte: the rest is for others."""
        data = bytearray()
        while len(data) < LONGEST_LINE:
            byte = await self.process.read(1, 0)
            await self.process.tick()
            if not byte or byte == b"\n":
                return data.decode("utf-8", "replace") if data or byte else None
            data += byte
        return data.decode("utf-8", "replace")

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
