"""What editors share: the text that is edited, and the screen that shows it."""

from __future__ import annotations

from kubesim.shell import regexes
from kubesim.shell.errors import FileError
from kubesim.shell.files import Directory, File
from kubesim.shell.lineedit import Keyboard
from kubesim.shell.machine import Process
from kubesim.shell.terminal import Terminal
from kubesim.shell.tools import kit

LARGEST = 4 << 20
MOST_UNDONE = 100
ARROWS = {
    b"\x1b[A": "k", b"\x1b[B": "j", b"\x1b[C": "l", b"\x1b[D": "h", b"\x1bOA": "k", b"\x1bOB": "j", b"\x1bOC": "l",
    b"\x1bOD": "h", b"\x1b[H": "0", b"\x1b[F": "$", b"\x1b[5~": "\x02", b"\x1b[6~": "\x06", b"\x1b[3~": "x",
}  # fmt: skip


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
