"""Programs that take the whole screen: less, more, vi, nano."""

from __future__ import annotations

import re

from kubesim.shell import regexes
from kubesim.shell.errors import FileError
from kubesim.shell.files import Directory, File
from kubesim.shell.lineedit import Keyboard
from kubesim.shell.machine import Process, Tool
from kubesim.shell.terminal import Terminal
from kubesim.shell.tools import kit
from kubesim.shell.tools.text import cat

LARGEST = 4 << 20
MOST_UNDONE = 100
_ARROWS = {
    b"\x1b[A": "k",
    b"\x1b[B": "j",
    b"\x1b[C": "l",
    b"\x1b[D": "h",
    b"\x1bOA": "k",
    b"\x1bOB": "j",
    b"\x1bOC": "l",
    b"\x1bOD": "h",
    b"\x1b[H": "0",
    b"\x1b[F": "$",
    b"\x1b[5~": "\x02",
    b"\x1b[6~": "\x06",
    b"\x1b[3~": "x",
}


async def less(process: Process) -> int:
    """Show a text page by page; without a terminal, all of it."""
    terminal = process.tty(1)
    if terminal is None:
        return await cat(process)
    opts = await kit.options(process, "NSRFXeEirn", {"no-init": "X"})
    handle = await kit.opened(process, opts.args[0]) if opts.args else process.fds[0]
    if handle is None:
        return 1
    if handle.tty:
        await process.error('Missing filename ("less --help" for help)\n')
        return 1
    lines = kit.text(await kit.everything(process, handle, LARGEST)).expandtabs(8).splitlines()
    if "F" in opts and len(lines) < terminal.size[0]:
        await process.write("".join(line + "\n" for line in lines))
        return 0
    source = process.terminal or terminal
    source.mode(raw=True)
    try:
        await _Pager(process, source, lines, opts.args[0] if opts.args else "").run()
    finally:
        source.mode(raw=False)
        await process.write("\r\x1b[K")
    return 0


class _Pager:
    def __init__(self, process: Process, terminal: Terminal, lines: list[str], name: str) -> None:
        self.process, self.terminal, self.lines, self.name = process, terminal, lines, name
        self.keys = Keyboard(process, terminal)
        self.top = 0
        self.pattern = ""

    async def run(self) -> None:
        while True:
            rows = self.terminal.size[0] - 1
            self.top = max(min(self.top, len(self.lines) - rows), 0)
            await self._draw(rows)
            key = await self.keys.key()
            char = _ARROWS.get(key) or key.decode("utf-8", "replace")
            if char in ("q", "Q", "", "\x03"):
                return
            await self._press(char, rows)

    async def _press(self, char: str, rows: int) -> None:
        steps = {
            "j": 1,
            "\r": 1,
            "k": -1,
            " ": rows,
            "f": rows,
            "\x06": rows,
            "b": -rows,
            "\x02": -rows,
            "d": rows // 2,
            "u": -rows // 2,
        }
        if char in steps:
            self.top += steps[char]
        elif char in "gG":
            self.top = 0 if char == "g" else len(self.lines)
        elif char in "/?":
            self.pattern = await self._ask(char)
            self._search(1 if char == "/" else -1)
        elif char in "nN":
            self._search(1 if char == "n" else -1)

    async def _ask(self, mark: str) -> str:
        text = ""
        while True:
            await self.process.write(f"\r\x1b[K{mark}{text}")
            key = await self.keys.key()
            if key in (b"\r", b"\n", b"\x1b", b"\x03", b""):
                return text if key in (b"\r", b"\n") else ""
            text = text[:-1] if key in (b"\x7f", b"\x08") else text + key.decode("utf-8", "replace")

    def _search(self, step: int) -> None:
        try:
            compiled = regexes.compile_posix(self.pattern, extended=True) if self.pattern else None
            at = self.top + step
            while compiled and 0 <= at < len(self.lines):
                if regexes.search(compiled, self.lines[at]):
                    self.top = at
                    return
                at += step
        except regexes.RegexError:
            return

    async def _draw(self, rows: int) -> None:
        wide = self.terminal.size[1]
        shown = [line[:wide] for line in self.lines[self.top : self.top + rows]]
        shown += ["~"] * (rows - len(shown))
        end = self.top + rows >= len(self.lines)
        status = "\x1b[7m(END)\x1b[m" if end else f"\x1b[7m{self.name}\x1b[m" if self.name and not self.top else ":"
        await self.process.write("\x1b[H\x1b[2J" + "\n".join(shown) + "\n" + status)


class Buffer:
    """The lines of a file that is edited."""

    def __init__(self, process: Process, name: str) -> None:
        self.process = process
        self.name = name
        self.row = self.column = 0
        self.changed = False
        self.message = ""
        self.undone: list[tuple[list[str], int, int]] = []
        node = process.view.find(name) if name else None
        if isinstance(node, Directory):
            raise FileError("EISDIR", name)
        data = bytes(node.content()[:LARGEST]) if isinstance(node, File) else b""
        self.lines = kit.text(data).removesuffix("\n").split("\n")
        self.message = f'"{name}" {len(self.lines)}L, {len(data)}B' if node else f'"{name}" [New]'

    @property
    def line(self) -> str:
        """The line of the cursor."""
        return self.lines[self.row]

    def keep(self) -> None:
        """Remember this state for undo."""
        self.undone.append((list(self.lines), self.row, self.column))
        del self.undone[:-MOST_UNDONE]
        self.changed = True

    def undo(self) -> None:
        """Go back to the last state that was kept."""
        if self.undone:
            self.lines, self.row, self.column = self.undone.pop()

    def clamp(self, *, inserting: bool = False) -> None:
        """Bring the cursor into the text."""
        self.row = max(min(self.row, len(self.lines) - 1), 0)
        self.column = max(min(self.column, len(self.line) - (0 if inserting else 1)), 0)

    def insert(self, text: str) -> None:
        """Put a character or a line break at the cursor."""
        if text == "\n":
            head, tail = self.line[: self.column], self.line[self.column :]
            self.lines[self.row : self.row + 1] = [head, tail]
            self.row, self.column = self.row + 1, 0
        elif sum(map(len, self.lines)) < LARGEST:
            self.lines[self.row] = self.line[: self.column] + text + self.line[self.column :]
            self.column += len(text)

    def rub(self) -> None:
        """Take away the character before the cursor."""
        if self.column:
            self.lines[self.row] = self.line[: self.column - 1] + self.line[self.column :]
            self.column -= 1
        elif self.row:
            self.column = len(self.lines[self.row - 1])
            self.lines[self.row - 1] += self.lines.pop(self.row)
            self.row -= 1

    def save(self, name: str = "") -> bool:
        """Write the file; tells in ``message`` how that went."""
        target = name or self.name
        data = kit.data("\n".join(self.lines) + "\n")
        if not target:
            self.message = "E32: No file name"
            return False
        try:
            self.process.view.write(target, data)
        except FileError as error:
            self.message = f'"{target}" E212: Can\'t open file for writing: {error.text}'
            return False
        self.name, self.changed = target, False
        self.message = f'"{target}" {len(self.lines)}L, {len(data)}B written'
        return True

    def search(self, pattern: str, step: int) -> None:
        """Go to the next line that matches, around the end of the text."""
        try:
            compiled = regexes.compile_posix(pattern, extended=False)
            for count in range(1, len(self.lines) + 1):
                at = (self.row + step * count) % len(self.lines)
                match = regexes.search(compiled, self.lines[at])
                if match:
                    self.row, self.column = at, match.start()
                    return
        except regexes.RegexError:
            pass
        self.message = f"E486: Pattern not found: {pattern}"


class Screen:
    """Draws a buffer; what vi and nano share."""

    def __init__(self, process: Process, terminal: Terminal, buffer: Buffer) -> None:
        self.process, self.terminal, self.buffer = process, terminal, buffer
        self.keys = Keyboard(process, terminal)
        self.top = 0

    async def draw(self, rows: int, header: str, footer: list[str], *, filler: str) -> None:
        """Show as many lines as fit with the cursor among them."""
        buffer, wide = self.buffer, self.terminal.size[1]
        self.top = min(self.top, buffer.row) if buffer.row < self.top else max(self.top, buffer.row - rows + 1)
        left = max(buffer.column - wide + 1, 0)
        shown = [line.replace("\t", " ")[left : left + wide] for line in buffer.lines[self.top : self.top + rows]]
        shown += [filler] * (rows - len(shown))
        text = "\n".join([*([header] if header else []), *shown, *(line[:wide] for line in footer)])
        at = buffer.row - self.top + 1 + bool(header)
        await self.process.write(f"\x1b[H\x1b[2J{text}\x1b[{at};{buffer.column - left + 1}H")

    async def ask(self, mark: str) -> str | None:
        """Read a line at the bottom; None where it was given up."""
        text = ""
        rows = self.terminal.size[0]
        while True:
            await self.process.write(f"\x1b[{rows};1H\x1b[K{mark}{text}")
            key = await self.keys.key()
            if key in (b"\r", b"\n"):
                return text
            if key in (b"\x1b", b"\x03", b"") or key in (b"\x7f", b"\x08") and not text:
                return None
            text = text[:-1] if key in (b"\x7f", b"\x08") else text + key.decode("utf-8", "replace")


class Vi(Screen):
    """The commands of vi that people use to change a few lines."""

    mode = "command"
    count = ""
    register: list[str] = []
    pattern = ""

    async def run(self) -> int:
        """Edit until the file is left."""
        while True:
            self.buffer.clamp(inserting=self.mode == "insert")
            status = "-- INSERT --" if self.mode == "insert" else self.buffer.message
            await self.draw(self.terminal.size[0] - 1, "", [status], filler="~")
            key = await self.keys.key()
            if not key:
                return 1
            if self.mode == "insert":
                self._insert(key)
            elif await self._command(_ARROWS.get(key) or key.decode("utf-8", "replace")):
                return 0

    def _insert(self, key: bytes) -> None:
        buffer = self.buffer
        if key == b"\x1b" or key == b"\x03":
            self.mode = "command"
            buffer.column -= 1
        elif key in (b"\x7f", b"\x08"):
            buffer.rub()
        elif key in (b"\r", b"\n"):
            buffer.insert("\n")
        elif key in _ARROWS:
            self._move(_ARROWS[key], 1)
        elif key[0] >= 32 or key == b"\t":
            buffer.insert(key.decode("utf-8", "replace"))

    async def _command(self, char: str) -> bool:
        buffer = self.buffer
        buffer.message = ""
        if char.isdecimal() and (char != "0" or self.count) and len(self.count) < 6:
            self.count += char
            return False
        count, self.count = int(self.count or 1), ""
        if char in "iaIAoO":
            self._begin(char)
        elif char in "dyc":
            await self._operator(char, count)
        elif char in "xDpPJuC~r":
            await self._change(char, count)
        elif char == ":":
            return await self._line(await self.ask(":"))
        elif char in "/?":
            self.pattern = await self.ask(char) or self.pattern
            buffer.search(self.pattern, 1 if char == "/" else -1)
        elif char in "nN" and self.pattern:
            buffer.search(self.pattern, 1 if char == "n" else -1)
        elif char == "Z":
            return await self.keys.key() in (b"Z", b"Q") and (not buffer.changed or buffer.save())
        elif char == "g":
            await self.keys.key()
            buffer.row = 0
        elif char == "G":
            buffer.row = count - 1 if count > 1 else len(buffer.lines) - 1
        else:
            self._move(char, count)
        return False

    def _move(self, char: str, count: int) -> None:
        buffer, page = self.buffer, self.terminal.size[0] - 2
        for _ in range(min(count, 10_000)):
            if char in "hl":
                buffer.column += 1 if char == "l" else -1
            elif char in "jk\r":
                buffer.row += -1 if char == "k" else 1
            elif char in ("\x06", "\x02"):
                buffer.row += page if char == "\x06" else -page
            elif char in "wbe":
                self._word(char)
            elif char in "0^$":
                line = buffer.line
                buffer.column = len(line) if char == "$" else len(line) - len(line.lstrip()) if char == "^" else 0
            buffer.clamp(inserting=self.mode == "insert")

    def _word(self, char: str) -> None:
        buffer = self.buffer
        starts = [
            match.start() if char != "e" else match.end() - 1 for match in re.finditer(r"\w+|[^\w\s]+", buffer.line)
        ]
        if char == "b":
            before = [at for at in starts if at < buffer.column]
            if before:
                buffer.column = before[-1]
            elif buffer.row:
                buffer.row, buffer.column = buffer.row - 1, 1 << 20
            return
        after = [at for at in starts if at > buffer.column]
        if after:
            buffer.column = after[0]
        elif buffer.row < len(buffer.lines) - 1:
            buffer.row, buffer.column = buffer.row + 1, 0

    def _begin(self, char: str) -> None:
        buffer = self.buffer
        buffer.keep()
        self.mode = "insert"
        if char == "a":
            buffer.column += bool(buffer.line)
        elif char == "A":
            buffer.column = len(buffer.line)
        elif char == "I":
            buffer.column = len(buffer.line) - len(buffer.line.lstrip())
        elif char in "oO":
            buffer.row += char == "o"
            buffer.lines.insert(buffer.row, "")
            buffer.column = 0

    async def _operator(self, op: str, count: int) -> None:
        buffer = self.buffer
        target = (await self.keys.key()).decode("utf-8", "replace")
        buffer.keep()
        if target == op:
            self.register = buffer.lines[buffer.row : buffer.row + count]
            if op == "d":
                del buffer.lines[buffer.row : buffer.row + count]
                buffer.lines = buffer.lines or [""]
            elif op == "c":
                buffer.lines[buffer.row], buffer.column, self.mode = "", 0, "insert"
        elif target in "w$0e":
            row, start = buffer.row, buffer.column
            self._move(target, count)
            end = len(buffer.lines[row]) if buffer.row != row or target == "$" else buffer.column + (target == "e")
            first, last = sorted((start, end))
            line = buffer.lines[row]
            if op != "y":
                buffer.lines[row] = line[:first] + line[last:]
            buffer.row, buffer.column = row, first
            self.mode = "insert" if op == "c" else self.mode
        elif target == "G" and op == "d":
            del buffer.lines[buffer.row :]
            buffer.lines = buffer.lines or [""]

    async def _change(self, char: str, count: int) -> None:
        buffer = self.buffer
        if char == "u":
            buffer.undo()
            return
        buffer.keep()
        line, at = buffer.line, buffer.column
        if char == "x":
            buffer.lines[buffer.row] = line[:at] + line[at + count :]
        elif char in "DC":
            buffer.lines[buffer.row] = line[:at]
            self.mode = "insert" if char == "C" else self.mode
        elif char == "r":
            new = (await self.keys.key()).decode("utf-8", "replace")
            buffer.lines[buffer.row] = line[:at] + new + line[at + 1 :]
        elif char == "~":
            buffer.lines[buffer.row] = line[:at] + line[at : at + 1].swapcase() + line[at + 1 :]
            buffer.column += 1
        elif char == "J" and buffer.row + 1 < len(buffer.lines):
            buffer.lines[buffer.row] += " " + buffer.lines.pop(buffer.row + 1).lstrip()
        elif char in "pP":
            place = buffer.row + (char == "p")
            buffer.lines[place:place] = self.register
            buffer.row = place

    async def _line(self, text: str | None) -> bool:
        """Run a command after the colon; True where the file is left."""
        buffer = self.buffer
        if not text:
            return False
        if text.isdecimal():
            buffer.row = int(text[:9]) - 1
            return False
        match = re.fullmatch(r"(w|wq|x|q)(!?)(?:\s+(\S+))?", text)
        if not match:
            self._substitute(text)
            return False
        if match[1] in ("w", "wq") or match[1] == "x" and buffer.changed:
            if not buffer.save(match[3] or ""):
                return False
        elif match[1] == "q" and buffer.changed and not match[2]:
            buffer.message = "E37: No write since last change (add ! to override)"
            return False
        return match[1] != "w"

    def _substitute(self, text: str) -> None:
        buffer = self.buffer
        match = re.fullmatch(r"(%?)s/((?:[^/\\]|\\.)*)/((?:[^/\\]|\\.)*)/?(g?)", text)
        if not match:
            buffer.message = "" if text.startswith("set") else f"E492: Not an editor command: {text}"
            return
        buffer.keep()
        try:
            compiled = regexes.compile_posix(match[2], extended=False)
            for row in range(len(buffer.lines)) if match[1] else [buffer.row]:
                new = match[3].replace("\\/", "/")
                buffer.lines[row] = compiled.sub(
                    lambda found, new=new: new, buffer.lines[row], 0 if match[4] else 1, timeout=0.02
                )
        except (regexes.RegexError, TimeoutError):
            buffer.message = f"E486: Pattern not found: {match[2]}"


class Nano(Screen):
    """nano's keys."""

    cut = ""

    async def run(self) -> int:
        """Edit until the file is left."""
        while True:
            buffer = self.buffer
            buffer.clamp(inserting=True)
            rows, wide = self.terminal.size
            head = f"  GNU nano 7.2    {buffer.name}     {'*' * buffer.changed}"
            title = f"\x1b[7m{head:<{wide}}\x1b[m"
            footer = [
                buffer.message,
                "^G Help   ^O Write Out   ^W Where Is   ^K Cut     ^X Exit",
                "^C Location   ^U Paste   ^A Home   ^E End",
            ]
            await self.draw(max(rows - 4, 1), title, footer, filler="")
            key = await self.keys.key()
            if not key:
                return 1
            if key == b"\x18":
                if await self._leave():
                    return 0
            else:
                await self._press(key)

    async def _press(self, key: bytes) -> None:
        buffer = self.buffer
        buffer.message = ""
        if key in _ARROWS or key in (b"\x01", b"\x05"):
            move = {b"\x01": "0", b"\x05": "$"}.get(key) or _ARROWS.get(key, "")
            page = self.terminal.size[0] - 5
            buffer.row += {"j": 1, "k": -1, "\x06": page, "\x02": -page}.get(move, 0)
            buffer.column += {"l": 1, "h": -1}.get(move, 0)
            buffer.column = 0 if move == "0" else 1 << 20 if move == "$" else buffer.column
        elif key == b"\x0f":
            name = await self.ask(f"File Name to Write: {buffer.name}")
            if name is not None and buffer.save(buffer.name + name):
                buffer.message = f"[ Wrote {len(buffer.lines)} lines ]"
        elif key == b"\x17":
            pattern = await self.ask("Search: ")
            if pattern:
                buffer.search(re.escape(pattern), 1)
        elif key == b"\x0b":
            buffer.keep()
            self.cut = buffer.lines.pop(buffer.row)
            buffer.lines = buffer.lines or [""]
        elif key == b"\x15":
            buffer.keep()
            buffer.lines.insert(buffer.row, self.cut)
            buffer.row += 1
        elif key in (b"\x7f", b"\x08"):
            buffer.changed = True
            buffer.rub()
        elif key in (b"\r", b"\n") or key[0] >= 32 or key == b"\t":
            buffer.changed = True
            buffer.insert("\n" if key in (b"\r", b"\n") else key.decode("utf-8", "replace"))

    async def _leave(self) -> bool:
        if not self.buffer.changed:
            return True
        answer = await self.ask("Save modified buffer? (Y/N) ")
        if answer is None:
            return False
        if answer[:1] in ("y", "Y"):
            if not self.buffer.name:
                self.buffer.name = await self.ask("File Name to Write: ") or ""
            return self.buffer.save()
        return True


async def editor(process: Process) -> int:
    """Edit a file on the screen; the program's name says in which manner."""
    opts = await kit.options(
        process, "RwlcEim:T:", {"readonly": "R"}, argv=[word for word in process.argv[1:] if not word.startswith("+")]
    )
    terminal = process.tty(0)
    if terminal is None or process.tty(1) is None:
        if process.name == "nano":
            await process.error("Standard input is not a terminal\n")
        else:
            await process.error("Vim: Warning: Output is not to a terminal\n")
        return 1
    try:
        buffer = Buffer(process, opts.args[0] if opts.args else "")
    except FileError as error:
        return await process.fail(f"{error.path}: {error.text}")
    kind = Nano if process.name == "nano" else Vi
    terminal.mode(raw=True)
    await process.write("\x1b[?1049h")
    try:
        return await kind(process, terminal, buffer).run()
    finally:
        terminal.mode(raw=False)
        await process.write("\x1b[?1049l")


TOOLS: dict[str, Tool] = {"less": less, "more": less, "vi": editor, "vim": editor, "nano": editor}
