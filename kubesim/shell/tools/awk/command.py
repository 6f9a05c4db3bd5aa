"""awk: its statements and rules, and the program's command line."""

from __future__ import annotations

from typing import Any

from kubesim.shell import regexes
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.awk.expressions import Jump
from kubesim.shell.tools.awk.functions import Functions
from kubesim.shell.tools.awk.operators import Expr
from kubesim.shell.tools.awk.parse import Parser
from kubesim.shell.tools.awk.tokens import AwkSyntaxError, unescape
from kubesim.shell.tools.awk.values import AwkError, given, number


class Runner(Functions):
    """One program over its input."""

    def __init__(self, process: Process, program: Parser) -> None:
        super().__init__(process, program)
        self.active: set[int] = set()

    # statements

    async def execute(self, node: Expr) -> None:
        await self.process.tick()
        kind = node[0]
        if kind == "block":
            for each in node[1]:
                await self.execute(each)
        elif kind == "expr":
            await self.eval(node[1])
        elif kind in ("print", "printf"):
            await self._write(node)
        elif kind == "if":
            if self.truth(await self.eval(node[1])):
                await self.execute(node[2])
            elif node[3]:
                await self.execute(node[3])
        elif kind in ("while", "do", "for", "forin"):
            await getattr(self, f"_loop_{kind}")(node)
        elif kind == "delete":
            array = self.array(node[1])
            if node[2] is None:
                array.clear()
            else:
                array.pop(await self.key(node[2]), None)
        elif kind in ("exit", "return"):
            raise Jump(kind, await self.eval(node[1]) if node[1] else None)
        else:
            raise Jump(kind)

    async def _turn(self, body: Expr) -> bool:
        try:
            await self.execute(body)
        except Jump as jump:
            if jump.kind == "break":
                return False
            if jump.kind != "continue":
                raise
        return True

    async def _loop_while(self, node: Expr) -> None:
        while self.truth(await self.eval(node[1])):
            await self.process.tick()
            if not await self._turn(node[2]):
                return

    async def _loop_do(self, node: Expr) -> None:
        while await self._turn(node[1]) and self.truth(await self.eval(node[2])):
            await self.process.tick()

    async def _loop_for(self, node: Expr) -> None:
        if node[1]:
            await self.execute(node[1])
        while node[2] is None or self.truth(await self.eval(node[2])):
            await self.process.tick()
            if not await self._turn(node[4]):
                return
            if node[3]:
                await self.execute(node[3])

    async def _loop_forin(self, node: Expr) -> None:
        for key in list(self.array(node[2])):
            await self.process.tick()
            self.set(node[1], given(key))
            if not await self._turn(node[3]):
                return

    async def _write(self, node: Expr) -> None:
        kind, args, op, target = node
        values = [await self.eval(arg) for arg in args]
        if kind == "printf":
            text = self.format(self.text(values[0]) if values else "", values[1:])
        else:
            parts = [self.text(value, output=True) for value in values] if values else [self.text(self.fields[0])]
            text = str(self.globals["OFS"]).join(parts) + str(self.globals["ORS"])
        if not op:
            await self.process.write(text)
            return
        name = self.text(await self.eval(target))
        if name == "/dev/stdout":
            await self.process.write(text)
        elif name == "/dev/stderr":
            await self.process.error(text)
        else:
            await (await self.output(op, name)).write(kit.data(text))

    # the run

    async def run(self, names: list[str]) -> int:
        """Run all rules; returns the status."""
        self.names = names if any("=" not in name for name in names) else [*names, "-"]
        try:
            try:
                await self._rules("BEGIN")
                if any(kind != "BEGIN" for kind, _, _ in self.program.rules):
                    await self._lines()
            except Jump as jump:
                await self._leave(jump)
            try:
                await self._rules("END")
            except Jump as jump:
                await self._leave(jump)
        finally:
            await self.process.flush()
            for name in list(self.outputs):
                await self.close(name)
        return self.status

    async def _leave(self, jump: Jump) -> None:
        if jump.kind == "exit" and jump.value is not None:
            self.status = int(number(jump.value)) & 255

    async def _rules(self, kind: str) -> None:
        for each, _, body in self.program.rules:
            if each == kind and body:
                await self.execute(body)

    async def _lines(self) -> None:
        while (line := await self.read_main()) is not None:
            self.globals["NR"] = number(self.globals["NR"]) + 1
            self.record(line)
            await self.process.tick()
            try:
                for index, (kind, pattern, body) in enumerate(self.program.rules):
                    if kind == "" and await self._selected(index, pattern):
                        await self.execute(body or ("print", [], "", None))
            except Jump as jump:
                if jump.kind == "nextfile":
                    self.main = None
                elif jump.kind != "next":
                    raise

    async def _selected(self, index: int, pattern: Any) -> bool:
        if pattern is None:
            return True
        if len(pattern) == 1:
            return self.truth(await self.eval(pattern[0]))
        if index not in self.active:
            if not self.truth(await self.eval(pattern[0])):
                return False
            self.active.add(index)
        if self.truth(await self.eval(pattern[1])):
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
        program = Parser("\n".join(pieces)).parse()
    except AwkSyntaxError as error:
        return await process.fail(f"line {error.line}: syntax error at or near {error.at}", 2)
    runner = Runner(process, program)
    if "F" in opts:
        separator = unescape(opts.get("F"))
        runner.globals["FS"] = "\t" if separator == "t" else separator
    for word in opts.all("v"):
        name, _, value = word.partition("=")
        runner.globals[name] = given(unescape(value))
    try:
        return await runner.run(opts.args)
    except (AwkError, regexes.RegexError) as error:
        await process.flush()
        return await process.fail(str(error), 2)


TOOLS: dict[str, Tool] = {"awk": awk}
