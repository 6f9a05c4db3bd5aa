"""sed: its command line, and its cycle of a script's commands over the lines of the input."""

from __future__ import annotations

from typing import Any

from kubesim.shell import regexes
from kubesim.shell.errors import FileError, Leave
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.sed.grammar import Address, Command, Parser, SedError

LONGEST_SPACE = 1 << 20


class _EndOfCycle(Exception):
    """Ends a cycle, with the line printed or not."""

    def __init__(self, *, quiet: bool = True) -> None:
        super().__init__()
        self.quiet = quiet


class _Editor:
    """Runs a script over lines."""

    def __init__(self, process: Process, commands: list[Command], opts: kit.Options) -> None:
        self.process = process
        self.commands = commands
        self.quiet = "n" in opts
        self.space = ""
        self.line = 0
        self.appended: list[str] = []
        self.upcoming: list[str] = []
        self.status: int | None = None
        self.out: list[str] | None = None
        self.last_pattern: Any = None

    async def write(self, text: str) -> None:
        """Print, or keep what a file is to be."""
        if self.out is not None:
            self.out.append(text)
        else:
            await self.process.write(text)

    def _read_line(self) -> bool:
        if self.upcoming:
            self.space = self.upcoming.pop()
            self.line += 1
            return True
        return False

    async def run(self, lines: list[str], *, ended: bool = True) -> None:
        """Edit all lines; ``ended`` says whether the last had a newline."""
        self.upcoming = lines[::-1]
        while self.status is None and self._read_line():
            await self.process.tick()
            quiet = self.quiet
            try:
                await self._cycle()
            except _EndOfCycle as stop:
                quiet = quiet or stop.quiet
            if not quiet:
                await self.write(self.space + ("\n" if self.upcoming or ended else ""))
            for text in self.appended:
                await self.write(text)
            self.appended = []

    async def _cycle(self) -> None:
        at = 0
        while at < len(self.commands):
            await self.process.tick()
            if len(self.space) > LONGEST_SPACE:
                raise Leave(await self.process.fail("couldn't re-allocate memory", 4))
            command = self.commands[at]
            chosen = self._selected(command) != command.negated
            at += 1
            if command.name == "{":
                at = at if chosen else command.target
            elif chosen:
                await self._apply(command)

    def _selected(self, command: Command) -> bool:
        if len(command.addresses) == 2:
            return self._in_range(command)
        return not command.addresses or self._fits(command.addresses[0])

    def _in_range(self, command: Command) -> bool:
        first, second = command.addresses
        counted = second.kind in ("line", "plus")
        if command.active:
            command.active = self.line < command.until if counted else not self._fits(second)
            return not counted or self.line <= command.until
        from_start = first.kind == "line" and first.number == 0  # 0,/pattern/ may end at the first line
        if not (self._fits(first) or from_start and self.line == 1):
            return False
        command.until = second.number + (self.line if second.kind == "plus" else 0)
        command.active = self.line < command.until if counted else not (from_start and self._fits(second))
        return True

    def _fits(self, address: Address) -> bool:
        if address.kind == "pattern":
            return self._search(address.pattern, self.space) is not None
        if address.kind == "last":
            return not self.upcoming
        return self.line == address.number

    def _search(self, pattern: Any, text: str, at: int = 0) -> Any:
        self.last_pattern = pattern or self.last_pattern
        return regexes.search(self.last_pattern, text, at) if self.last_pattern else None

    async def _apply(self, command: Command) -> None:
        """Run a command."""
        name = command.name
        if name == "s":
            await self._substitute(command)
        elif name in "p=i":
            await self.write({"p": f"{self.space}\n", "=": f"{self.line}\n"}.get(name, command.text))
        elif name in "nN":
            await self._advance(name)
        elif name == "a":
            self.appended.append(command.text)
        elif name == "c" and (len(command.addresses) < 2 or not command.active or command.negated):
            await self.write(command.text)
        if name in "dcq":
            self.status = command.number if name == "q" else None
            raise _EndOfCycle(quiet=name != "q")

    async def _advance(self, name: str) -> None:
        if not self.upcoming:
            raise _EndOfCycle(quiet=False)
        before = self.space
        if name == "n" and not self.quiet:
            await self.write(before + "\n")
        self._read_line()
        if name == "N":
            self.space = f"{before}\n{self.space}"

    async def _substitute(self, command: Command) -> None:
        out: list[str] = []
        at = count = size = 0
        done = False
        text, before = self.space, -1
        while at <= len(text) and (match := self._search(command.pattern, text, at)):
            await self.process.tick()
            start, end = match.span()
            if end == start == before:  # nothing right after a match is none
                out.append(text[at : at + 1])
                at, before = at + 1, -1
                continue
            before = end
            count += 1
            done = count >= command.number
            filled = _filled(command.parts, match)
            out += [text[at:start], filled if done else match[0]]
            size += len(out[-1])
            if size > LONGEST_SPACE:
                raise Leave(await self.process.fail("couldn't re-allocate memory", 4))
            at = end
            if end == start:
                out.append(text[end : end + 1])
                at += 1
            if done and "g" not in command.flags:
                break
        if done:
            self.space = "".join(out) + text[at:]
            if "p" in command.flags:
                await self.write(self.space + "\n")


def _filled(parts: list[str | int], match: Any) -> str:
    """Return what stands in a match's place."""
    out = case = once = ""
    for part in parts:
        mark = part[1:] if isinstance(part, str) and len(part) == 2 and part[0] == "\\" else ""
        if mark:
            case, once = (case, mark) if mark in "ul" else (mark, once)
            continue
        text = mark or (part if isinstance(part, str) else match[part] or "")
        text = {"U": text.upper, "L": text.lower}.get(case, text.__str__)()
        if once and text:
            text, once = (text[0].upper() if once == "u" else text[0].lower()) + text[1:], ""
        out += text
    return out


async def sed(process: Process) -> int:
    """Edit lines by a script."""
    opts = await kit.options(process)
    script = await _script(process, opts)
    try:
        commands = Parser(script, extended=opts.any("Er")).parse()
    except SedError as error:
        return await process.fail(f"-e expression #1, char {len(script)}: {error}")
    try:
        return await _edit(process, commands, opts)
    except regexes.RegexError as error:
        return await process.fail(str(error), 4)


async def _script(process: Process, opts: kit.Options) -> str:
    pieces = opts.all("e")
    for name in opts.all("f"):
        handle = await kit.opened(process, name)
        if handle is None:
            raise Leave(1)
        pieces.append(kit.text(await kit.everything(process, handle)).removesuffix("\n"))
    if pieces:
        return "\n".join(pieces)
    if not opts.args:
        await process.error("Usage: sed [OPTION]... {script-only-if-no-other-script} [input-file]...\n")
        raise Leave(1)
    return opts.args.pop(0)


async def _edit(process: Process, commands: list[Command], opts: kit.Options) -> int:
    status = 0
    editor = _Editor(process, commands, opts)
    whole: list[str] = []
    ended = True
    for name in opts.args or ["-"]:
        if "i" in opts and name != "-" and process.view.find(name) is None:
            status = await kit.complain(process, name, FileError("ENOENT", name), 4)
            continue
        handle = await kit.opened(process, name)
        if handle is None:
            status = 2
            continue
        text = kit.text(await kit.everything(process, handle))
        ended = text.endswith("\n") or not text
        lines = text.removesuffix("\n").split("\n") if text else []
        if "i" not in opts:
            whole += lines
            continue
        editor.line, editor.out = 0, []
        await editor.run(lines, ended=ended)
        process.view.write(name, kit.data("".join(editor.out)))
        if opts.get("i"):
            process.view.write(name + opts.get("i"), kit.data(text))
    if "i" not in opts:
        await editor.run(whole, ended=ended)
    return editor.status if editor.status is not None else status


TOOLS: dict[str, Tool] = {"sed": sed}
