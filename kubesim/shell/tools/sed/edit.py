"""sed's cycle: a script's commands over the lines of the input."""

from __future__ import annotations

from typing import Any

from kubesim.shell import regexes
from kubesim.shell.errors import FileError, Leave
from kubesim.shell.handles import Handle
from kubesim.shell.machine import Process
from kubesim.shell.tools import kit
from kubesim.shell.tools.sed.parse import Address, Command

LONGEST_SPACE = 1 << 20
MOST_STEPS = 200_000  # of one cycle


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
