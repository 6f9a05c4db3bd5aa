"""sed: the stream editor."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from kubesim.shell import regexes
from kubesim.shell.errors import FileError, Leave
from kubesim.shell.handles import Handle
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit

LONGEST_SPACE = 1 << 20
MOST_STEPS = 200_000  # of one cycle


class SedError(Exception):
    """A script that cannot be run."""


@dataclass
class Address:
    """A line number, ``$``, a pattern, ``first~step``; ``offset`` is for ``+3`` after a comma."""

    kind: str
    number: int = 0
    step: int = 0
    pattern: Any = None


@dataclass
class Command:
    """One command with its addresses."""

    name: str
    addresses: list[Address] = field(default_factory=list)
    negated: bool = False
    text: str = ""
    pattern: Any = None
    parts: list[str | int] = field(default_factory=list)
    flags: str = ""
    number: int = 0
    file: str = ""
    target: int = 0
    active: bool = False
    until: int = 0


class Parser:
    """Reads a script."""

    def __init__(self, script: str, *, extended: bool) -> None:
        self.script = script
        self.extended = extended
        self.at = 0
        self.commands: list[Command] = []
        self.labels: dict[str, int] = {}
        self.open: list[int] = []
        self.last: Any = None

    def parse(self) -> list[Command]:
        while True:
            self._skip(" \t\n;")
            if self.at >= len(self.script):
                break
            self._command()
        if self.open:
            raise SedError("unmatched `{'")
        for command in self.commands:
            if command.name in "btT" and command.text:
                if command.text not in self.labels:
                    raise SedError(f"can't find label for jump to `{command.text}'")
                command.target = self.labels[command.text]
            elif command.name in "btT":
                command.target = len(self.commands)
        return self.commands

    def _skip(self, chars: str) -> None:
        while self.at < len(self.script) and self.script[self.at] in chars:
            self.at += 1

    def _peek(self) -> str:
        return self.script[self.at : self.at + 1]

    def _command(self) -> None:
        if self._peek() == "#":
            self._line()
            return
        command = Command("")
        first = self._address()
        if first:
            command.addresses.append(first)
            self._skip(" \t")
            if self._peek() == ",":
                self.at += 1
                self._skip(" \t")
                second = self._address(second=True)
                if not second:
                    raise SedError("unexpected `,'")
                command.addresses.append(second)
        self._skip(" \t")
        while self._peek() == "!":
            command.negated = True
            self.at += 1
            self._skip(" \t")
        command.name = self._peek()
        self.at += 1
        if not command.name:
            raise SedError("missing command")
        self._arguments(command)

    def _address(self, *, second: bool = False) -> Address | None:
        match = re.compile(r"(\d{1,9})(?:~(\d{1,9}))?").match(self.script, self.at)
        if match:
            self.at = match.end()
            if match[2]:
                return Address("step", int(match[1]), int(match[2]))
            return Address("line", int(match[1]))
        char = self._peek()
        if char == "$":
            self.at += 1
            return Address("last")
        if second and char in "+~":
            match = re.compile(r"[+~](\d{1,9})").match(self.script, self.at)
            if match:
                self.at = match.end()
                return Address("plus" if char == "+" else "multiple", int(match[1]))
        if char in ("/", "\\") and char:
            if char == "\\":
                self.at += 1
            delimiter = self._peek()
            self.at += 1
            source = self._delimited(delimiter, what="unterminated address regex", regex=True)
            flags = re.compile(r"[IM]*").match(self.script, self.at)
            self.at = flags.end() if flags else self.at
            return Address("pattern", pattern=self._regex(source, flags[0] if flags else ""))
        return None

    def _regex(self, source: str, flags: str = "") -> Any:
        if not source:
            return None
        try:
            return regexes.compile_posix(
                source, extended=self.extended, ignore_case="I" in flags or "i" in flags, multiline="M" in flags
            )
        except regexes.RegexError as error:
            raise SedError(str(error)) from error

    def _delimited(self, delimiter: str, *, what: str, regex: bool = False) -> str:
        out = []
        inside = False
        while self.at < len(self.script):
            char = self.script[self.at]
            if char == "\\" and self.at + 1 < len(self.script):
                following = self.script[self.at + 1]
                if following == delimiter and not (inside and delimiter != "/"):
                    out.append(following)
                elif following == "\n":
                    out.append("\\\n")
                else:
                    out.append(char + following)
                self.at += 2
                continue
            if char == "[" and not inside and regex:
                inside = True
                match = re.compile(r"\[\^?\]?").match(self.script, self.at)
                out.append(match[0] if match else char)
                self.at += len(match[0]) if match else 1
                continue
            if char == "]" and inside:
                inside = False
            if char == delimiter and not inside:
                self.at += 1
                return "".join(out)
            out.append(char)
            self.at += 1
        raise SedError(what)

    def _line(self) -> str:
        end = self.script.find("\n", self.at)
        end = len(self.script) if end < 0 else end
        text = self.script[self.at : end]
        self.at = end + 1
        return text

    def _arguments(self, command: Command) -> None:
        name = command.name
        if name == "{":
            self.open.append(len(self.commands))
            self.commands.append(command)
            return
        if name == "}":
            if not self.open:
                raise SedError("unexpected `}'")
            if command.addresses:
                raise SedError("} doesn't want any addresses")
            self.commands[self.open.pop()].target = len(self.commands)
            return
        if name == ":":
            if command.addresses:
                raise SedError(": doesn't want any addresses")
            match = re.compile(r"\s*([^\s;]+)").match(self.script, self.at)
            if not match:
                raise SedError('":" lacks a label')
            self.at = match.end()
            self.labels[match[1]] = len(self.commands)
            return
        self._plain(command, name)
        self.commands.append(command)

    def _plain(self, command: Command, name: str) -> None:
        if name in "btT":
            match = re.compile(r"[ \t]*([^\s;}]*)").match(self.script, self.at)
            command.text, self.at = (match[1], match.end()) if match else ("", self.at)
        elif name in "aic":
            command.text = self._text()
        elif name == "s":
            self._substitute(command)
        elif name == "y":
            self._transliterate(command)
        elif name in "rwR":
            command.file = self._line().strip()
            if not command.file:
                raise SedError("missing filename in r/R/w/W commands")
        elif name in "qQlL":
            match = re.compile(r"\s*(\d{0,9})").match(self.script, self.at)
            command.number = int(match[1] or 0) if match else 0
            self.at = match.end() if match else self.at
            self._end()
        elif name in "dDgGhHnNpPxz=F":
            self._end()
        else:
            raise SedError(f"unknown command: `{name}'")

    def _end(self) -> None:
        self._skip(" \t")
        if self._peek() not in ("", ";", "\n", "}", "#"):
            raise SedError("extra characters after command")

    def _text(self) -> str:
        self._skip(" \t")
        if self._peek() == "\\":
            self.at += 1
            self._skip(" \t")
            if self._peek() == "\n":
                self.at += 1
        elif not self._peek() or self._peek() == "\n":
            raise SedError("expected \\ after `a', `c' or `i'")
        out = []
        while self.at < len(self.script) and self.script[self.at] != "\n":
            if self.script[self.at] == "\\" and self.at + 1 < len(self.script):
                self.at += 1
                if self.script[self.at] == "t":
                    out.append("\t")
                    self.at += 1
                    continue
            out.append(self.script[self.at])
            self.at += 1
        return "".join(out) + "\n"

    def _substitute(self, command: Command) -> None:
        delimiter = self._peek()
        self.at += 1
        if not delimiter or delimiter in "\n\\":
            raise SedError("unterminated `s' command")
        source = self._delimited(delimiter, what="unterminated `s' command", regex=True)
        replacement = self._delimited(delimiter, what="unterminated `s' command")
        match = re.compile(r"(?:[gpiIeMm]|\d{1,6})*").match(self.script, self.at)
        command.flags = match[0] if match else ""
        self.at = match.end() if match else self.at
        if self._peek() == "w":
            self.at += 1
            command.file = self._line().strip()
        else:
            self._skip(" \t")
            if self._peek() not in ("", ";", "\n", "}", "#"):
                raise SedError("unknown option to `s'")
        number = re.search(r"\d+", command.flags)
        command.number = int(number[0]) if number else 1
        command.pattern = self._regex(source, command.flags)
        command.parts = _replacement(replacement)
        groups = command.pattern.groups if command.pattern else 9
        for part in command.parts:
            if isinstance(part, int) and part > groups:
                raise SedError(f"invalid reference \\{part} on `s' command's RHS")

    def _transliterate(self, command: Command) -> None:
        delimiter = self._peek()
        self.at += 1
        old = self._delimited(delimiter, what="unterminated `y' command").replace("\\n", "\n").replace("\\\\", "\\")
        new = self._delimited(delimiter, what="unterminated `y' command").replace("\\n", "\n").replace("\\\\", "\\")
        if len(old) != len(new):
            raise SedError("strings for `y' command are different lengths")
        command.pattern = str.maketrans(old, new)


def _replacement(text: str) -> list[str | int]:
    """Split what a match is replaced by: text, group numbers, and ``\\U`` and its like as "\\0U"."""
    out: list[str | int] = [""]
    at = 0
    while at < len(text):
        char = text[at]
        if char == "&":
            out += [0, ""]
        elif char == "\\" and at + 1 < len(text):
            at += 1
            follower = text[at]
            if follower.isdecimal():
                out += [int(follower), ""]
            elif follower in "ULEul":
                out += [f"\0{follower}", ""]
            else:
                out[-1] = str(out[-1]) + {"n": "\n", "t": "\t", "r": "\r"}.get(follower, follower)
        else:
            out[-1] = str(out[-1]) + char
        at += 1
    return [part for part in out if part != ""]


class _Next(Exception):
    """Ends a cycle; ``again`` begins the next without reading (D)."""

    def __init__(self, *, again: bool = False, quiet: bool = True) -> None:
        super().__init__()
        self.again = again
        self.quiet = quiet


class Editor:
    """Runs a script over lines."""

    def __init__(self, process: Process, commands: list[Command], opts: kit.Options) -> None:
        self.process = process
        self.commands = commands
        self.opts = opts
        self.quiet = "n" in opts
        self.space = ""
        self.hold = ""
        self.line = 0
        self.changed = False
        self.appended: list[str] = []
        self.upcoming: list[str] = []
        self.status: int | None = None
        self.out: list[str] | None = None
        self.missing = False
        self.written: dict[str, Handle] = {}
        self.last_pattern: Any = None

    async def write(self, text: str) -> None:
        if self.out is not None:
            self.out.append(text)
        else:
            await self.process.write(text)

    def next_line(self) -> bool:
        if not self.upcoming:
            return False
        self.space = self.upcoming.pop()
        self.line += 1
        return True

    async def run(self, lines: list[str], *, ended: bool = True) -> None:
        """Edit all lines; ``ended`` says whether the last had a newline."""
        self.upcoming = lines[::-1]
        again = False
        while again or self.next_line():
            again = False
            await self.process.tick()
            quiet = self.quiet
            try:
                await self.cycle()
            except _Next as stop:
                again, quiet = stop.again, self.quiet or stop.quiet
            if not quiet:
                await self.write(self.space + ("\n" if self.upcoming or ended else ""))
            for text in self.appended:
                await self.write(text)
            self.appended = []
            if self.status is not None:
                return

    async def cycle(self) -> None:
        at = steps = 0
        self.changed = False
        while at < len(self.commands):
            steps += 1
            await self.process.tick()
            if steps > MOST_STEPS or len(self.space) > LONGEST_SPACE or len(self.hold) > LONGEST_SPACE:
                raise Leave(await self.process.fail("couldn't re-allocate memory", 4))
            command = self.commands[at]
            chosen = self.selected(command) != command.negated
            if command.name == "{":
                at = at + 1 if chosen else command.target
                continue
            at += 1
            if chosen:
                at = await self.apply(command, at)

    def selected(self, command: Command) -> bool:
        if not command.addresses:
            return True
        if len(command.addresses) == 1:
            return self.fits(command.addresses[0])
        return self.in_range(command)

    def in_range(self, command: Command) -> bool:
        first, second = command.addresses
        if command.active:
            if second.kind == "line" or second.kind in ("plus", "multiple"):
                limit = second.number if second.kind == "line" else command.until
                if self.line >= limit:
                    command.active = False
                return self.line <= limit
            if self.fits(second):
                command.active = False
            return True
        if not (self.fits(first) or first.kind == "line" and first.number == 0 and self.line == 1):
            return False
        command.active = True
        if second.kind == "line" and second.number <= self.line:
            command.active = False
        if second.kind == "plus":
            command.until = self.line + second.number
            command.active = second.number > 0
        elif second.kind == "multiple":
            command.until = -(-self.line // second.number) * second.number if second.number else self.line
            command.active = command.until > self.line
        if first.number == 0 and first.kind == "line" and self.fits(second):
            command.active = False
        return True

    def fits(self, address: Address) -> bool:
        if address.kind == "line":
            return self.line == address.number
        if address.kind == "last":
            return not self.upcoming
        if address.kind == "step":
            if not address.step:
                return self.line == address.number
            return self.line >= address.number and (self.line - address.number) % address.step == 0
        return self.search(address.pattern, self.space) is not None

    def search(self, pattern: Any, text: str, at: int = 0) -> Any:
        pattern = pattern or self.last_pattern
        self.last_pattern = pattern
        return regexes.search(pattern, text, at) if pattern else None

    async def apply(self, command: Command, at: int) -> int:
        name = command.name
        if name == "s":
            await self.substitute(command)
        elif name in "btT":
            if name == "b" or self.changed == (name == "t"):
                self.changed = False if name != "b" else self.changed
                return command.target
            self.changed = False if name != "b" else self.changed
        elif name in "pPl=F":
            await self.show(name)
        elif name in "dDqQ":
            self.leave(command)
        elif name in "nN":
            await self.advance(name)
        elif name in "aicrR":
            await self.insert(command)
        elif name == "w":
            await self.save(command.file, self.space + "\n")
        else:
            self.spaces(command)
        return at

    def spaces(self, command: Command) -> None:
        name = command.name
        if name == "g":
            self.space = self.hold
        elif name == "G":
            self.space += "\n" + self.hold
        elif name == "h":
            self.hold = self.space
        elif name == "H":
            self.hold += "\n" + self.space
        elif name == "x":
            self.space, self.hold = self.hold, self.space
        elif name == "z":
            self.space = ""
        elif name == "y":
            self.space = self.space.translate(command.pattern)

    async def show(self, name: str) -> None:
        if name == "p":
            await self.write(self.space + "\n")
        elif name == "P":
            await self.write(self.space.partition("\n")[0] + "\n")
        elif name == "=":
            await self.write(f"{self.line}\n")
        elif name == "F":
            await self.write("-\n")
        else:
            named = {"\n": "\\n", "\t": "\\t", "\\": "\\\\", "\r": "\\r", "\x1b": "\\033"}
            text = "".join(
                named.get(char) or (char if char.isprintable() else f"\\{ord(char):03o}") for char in self.space
            )
            await self.write(text + "$\n")

    def leave(self, command: Command) -> None:
        if command.name == "d":
            raise _Next
        if command.name == "D":
            head, newline, rest = self.space.partition("\n")
            self.space = rest
            raise _Next(again=bool(newline))
        self.status = command.number
        raise _Next(quiet=command.name == "Q")

    async def advance(self, name: str) -> None:
        if not self.upcoming:
            if name == "n" and not self.quiet or name == "N":
                raise _Next(quiet=False)
            raise _Next
        if name == "n":
            if not self.quiet:
                await self.write(self.space + "\n")
            self.next_line()
        else:
            before = self.space
            self.next_line()
            self.space = before + "\n" + self.space

    async def insert(self, command: Command) -> None:
        if command.name == "a":
            self.appended.append(command.text)
        elif command.name == "i":
            await self.write(command.text)
        elif command.name == "c":
            if len(command.addresses) < 2 or not command.active or command.negated:
                await self.write(command.text)
            raise _Next
        else:
            try:
                self.appended.append(kit.text(self.process.view.read(command.file)))
            except FileError:
                return

    async def save(self, name: str, text: str) -> None:
        try:
            if name not in self.written:
                self.written[name] = self.process.open(name, "w")
            await self.process.flush()
            await self.written[name].write(kit.data(text))
        except FileError as error:
            raise Leave(await self.process.fail(f"couldn't open file {name}: {error.text}", 4)) from error

    async def substitute(self, command: Command) -> None:
        out: list[str] = []
        at = count = size = 0
        done = False
        text = self.space
        before = -1
        while at <= len(text):
            match = self.search(command.pattern, text, at)
            if not match:
                break
            await self.process.tick()
            start, end = match.span()
            if end == start == before:  # nothing right after a match is none
                out.append(text[at : at + 1])
                at += 1
                before = -1
                continue
            before = end
            count += 1
            out.append(text[at:start])
            if count >= command.number:
                piece = _filled(command.parts, match)
                out.append(piece)
                size += len(piece)
                done = True
            else:
                out.append(match[0])
            if size > LONGEST_SPACE:
                raise Leave(await self.process.fail("couldn't re-allocate memory", 4))
            if end == start:
                out.append(text[end : end + 1])
                end += 1
            at = end
            if done and "g" not in command.flags:
                break
        if not done:
            return
        self.space = "".join(out) + text[at:]
        self.changed = True
        if "p" in command.flags:
            await self.write(self.space + "\n")
        if command.file:
            await self.save(command.file, self.space + "\n")


def _filled(parts: list[str | int], match: Any) -> str:
    out = ""
    mode = once = ""
    for part in parts:
        if isinstance(part, str) and part.startswith("\0"):
            if part[1] in "ul":
                once = part[1]
            else:
                mode = "" if part[1] == "E" else part[1]
            continue
        text = (match[part] or "") if isinstance(part, int) else part
        text = text.upper() if mode == "U" else text.lower() if mode == "L" else text
        if once and text:
            text = (text[0].upper() if once == "u" else text[0].lower()) + text[1:]
            once = ""
        out += text
    return out


async def sed(process: Process) -> int:
    """Edit lines by a script."""
    opts = await kit.options(
        process,
        "ne:f:i::Erszul:",
        {
            "quiet": "n",
            "silent": "n",
            "expression=": "e",
            "file=": "f",
            "in-place?": "i",
            "regexp-extended": "E",
            "separate": "s",
        },
    )
    script = await _script(process, opts)
    try:
        commands = Parser(script, extended=opts.any("Er")).parse()
    except SedError as error:
        where = "" if process.busybox else f"-e expression #1, char {len(script)}: "
        return await process.fail(f"{where}{error}")
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
    editor = Editor(process, commands, opts)
    whole: list[str] = []
    ended = True
    for name in opts.args or ["-"]:
        if "i" in opts and name != "-" and process.view.find(name) is None:
            status = await kit.complain(process, name, FileError("ENOENT", name), 4 if not process.busybox else 1)
            continue
        handle = await kit.opened(process, name)
        if handle is None:
            status = 2 if not process.busybox else 1
            continue
        text = kit.text(await kit.everything(process, handle))
        ended = text.endswith("\n") or not text
        lines = text.removesuffix("\n").split("\n") if text else []
        if opts.any("is"):
            editor.line = 0
            editor.out = [] if "i" in opts else None
            await editor.run(lines, ended=ended)
            if editor.out is not None:
                process.view.write(name, kit.data("".join(editor.out)))
                if opts.get("i"):
                    process.view.write(name + opts.get("i"), kit.data(text))
        else:
            whole += lines
    if not opts.any("is"):
        await editor.run(whole, ended=ended)
    return editor.status if editor.status is not None else status


TOOLS: dict[str, Tool] = {"sed": sed}
