"""awk: its statements, rules and records, and the program's command line."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

from kubesim.shell import regexes
from kubesim.shell.errors import FileError, Leave
from kubesim.shell.handles import CHUNK, Handle
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.awk.evaluate import Evaluator
from kubesim.shell.tools.awk.grammar import AwkSyntaxError, Expr, Parser, unescape
from kubesim.shell.tools.awk.values import AwkError, Value, given, number, whole


class _Jump(Exception):
    """next, exit, break and continue, with what they carry."""

    def __init__(self, kind: str, value: Value = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.value = value


class _Runner(Evaluator):
    """One program over its input."""

    def __init__(self, process: Process, program: Parser) -> None:
        super().__init__(process)
        self.program = program
        self.active: set[int] = set()
        """The rules of two patterns that are between them."""
        self.status = 0

    async def execute(self, node: Expr) -> None:
        """Run a statement."""
        await self.process.tick()
        kind = node[0]
        if kind == "block":
            for each in node[1]:
                await self.execute(each)
        elif kind == "expr":
            self.eval(node[1])
        elif kind in ("print", "printf"):
            await self._write(node)
        elif kind == "if":
            await self.execute(node[2] if self.truth(self.eval(node[1])) else node[3])
        elif kind == "for":
            await self._loop(node)
        elif kind == "forin":
            for key in list(self.array(node[2])):
                self.set(node[1], given(key))
                if not await self._turn(node[3]):
                    return
        elif kind == "delete":
            array = self.array(node[1])
            for key in [*array] if node[2] is None else [self.key(node[2])]:
                array.pop(key, None)
        else:
            raise _Jump(kind, self.eval(node[1]) if node[1:] and node[1] else None)

    async def _loop(self, node: Expr) -> None:
        _, start, condition, step, body = node
        if start:
            await self.execute(start)
        while condition is None or self.truth(self.eval(condition)):
            if not await self._turn(body):
                return
            if step:
                await self.execute(step)

    async def _turn(self, body: Expr) -> bool:
        """Run the body of a loop; False where that ends the loop."""
        try:
            await self.execute(body)
        except _Jump as jump:
            if jump.kind not in ("break", "continue"):
                raise
            return jump.kind == "continue"
        return True

    async def _write(self, node: Expr) -> None:
        kind, args = node
        values = [self.eval(arg) for arg in args]
        if kind == "printf":
            text = self.format(self.text(values[0]) if values else "", values[1:])
        else:
            parts = [self.text(value, output=True) for value in values] if values else [self.text(self.fields[0])]
            text = str(self.globals["OFS"]).join(parts) + str(self.globals["ORS"])
        await self.process.write(text)

    async def run(self, names: list[str]) -> int:
        """Run all rules over the files and assignments that are named; returns the status."""
        names = names if any("=" not in name for name in names) else [*names, "-"]
        try:
            try:
                await self._rules("BEGIN")
                if any(kind != "BEGIN" for kind, _, _ in self.program.rules):
                    await self._lines(names)
            except _Jump as jump:
                self._leave(jump)
            try:
                await self._rules("END")
            except _Jump as jump:
                self._leave(jump)
        finally:
            await self.process.flush()
        return self.status

    def _leave(self, jump: _Jump) -> None:
        if jump.kind == "exit" and jump.value is not None:
            self.status = whole(jump.value) & 255

    async def _rules(self, kind: str) -> None:
        for each, _, body in self.program.rules:
            if each == kind and body:
                await self.execute(body)

    async def _lines(self, names: list[str]) -> None:
        for name in names:
            match = re.fullmatch(r"([A-Za-z_]\w*)=(.*)", name, re.DOTALL)
            if match:
                self.globals[match[1]] = given(unescape(match[2]))
                continue
            try:
                handle = self.process.fds[0] if name == "-" else self.process.open(name)
            except FileError as error:
                raise Leave(await self.process.fail(f'cannot open "{name}" ({error.text})', 2)) from error
            self.globals |= {"FILENAME": name if name != "-" else "", "FNR": 0.0}
            async for line in self._records(handle):
                await self._line(line)

    async def _line(self, line: str) -> None:
        """Run the rules that choose a record."""
        self.globals |= {count: number(self.globals[count]) + 1 for count in ("NR", "FNR")}
        self.record(line)
        await self.process.tick()
        try:
            for index, (kind, pattern, body) in enumerate(self.program.rules):
                if kind == "" and self._selected(index, pattern):
                    await self.execute(body or ("print", []))
        except _Jump as jump:
            if jump.kind != "next":
                raise

    async def _records(self, handle: Handle) -> AsyncIterator[str]:
        """Yield the records of a stream, each ended by what RS says then: a line, a character, or an empty line."""
        data, more = "", True
        while more:
            await self.process.flush()
            piece = kit.text(await handle.read_for(self.process, CHUNK))
            more, data, at = bool(piece), data + piece, 0
            if len(data) > kit.MOST_DATA:
                raise AwkError("record too long")
            while at < len(data):
                separator = str(self.globals["RS"])
                if not separator and data[at] == "\n":
                    at += 1
                    continue
                end = data.find(separator[:1] or "\n\n", at)
                if end < 0 and more:
                    break
                line = data[at:] if end < 0 else data[at:end]
                at = len(data) if end < 0 else end + len(separator[:1] or "\n\n")
                yield line.removesuffix("\n") if end < 0 and not separator else line
            data = data[at:]

    def _selected(self, index: int, pattern: tuple[Expr, ...]) -> bool:
        if len(pattern) < 2:
            return not pattern or self.truth(self.eval(pattern[0]))
        if index not in self.active:
            if not self.truth(self.eval(pattern[0])):
                return False
            self.active.add(index)
        if self.truth(self.eval(pattern[1])):
            self.active.discard(index)
        return True


async def awk(process: Process) -> int:
    """Run an awk program."""
    opts = await kit.options(process)
    pieces = []
    for name in opts.all("f"):
        handle = await kit.opened(process, name)
        if handle is None:
            return 2
        pieces.append(kit.text(await kit.everything(process, handle)))
    if not pieces:
        if not opts.args:
            await process.error("usage: awk [-F fs][-v var=value][prog | -f progfile][file ...]\n")
            return 2
        pieces.append(opts.args.pop(0))
    try:
        runner = _Runner(process, Parser("\n".join(pieces)).parse())
        if "F" in opts:
            separator = unescape(opts.get("F"))
            runner.globals["FS"] = "\t" if separator == "t" else separator
        for word in opts.all("v"):
            name, _, value = word.partition("=")
            runner.globals[name] = given(unescape(value))
        return await runner.run(opts.args)
    except AwkSyntaxError as error:
        return await process.fail(f"line {error.line}: syntax error at or near {error.at}", 2)
    except (AwkError, regexes.RegexError) as error:
        await process.flush()
        return await process.fail(str(error), 2)


TOOLS: dict[str, Tool] = {"awk": awk}
