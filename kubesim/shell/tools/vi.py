"""vi, as far as one needs it to change a file."""

from __future__ import annotations

import re

from kubesim.shell import regexes
from kubesim.shell.tools.buffer import ARROWS, Screen


class Vi(Screen):
    """The commands of vi that people use to change a few lines."""

    mode = "command"
    count = ""
    register: list[str] = []
    pattern = ""
    _again: list[bytes] = []
    """Keys that were taken together with one before them."""

    async def _key(self) -> bytes:
        """Return the next key."""
        key = self._again.pop(0) if self._again else await self.keys.key()
        if key[:1] == b"\x1b" and len(key) > 1 and key not in ARROWS and key[1:2] != b"[":
            # No key with Alt: Escape, and what was typed after it at once.
            self._again = [*(bytes([code]) for code in key[1:]), *self._again]
            key = key[:1]
        return key

    async def run(self) -> int:
        """Edit until the file is left."""
        while True:
            self.buffer.clamp(inserting=self.mode == "insert")
            status = "-- INSERT --" if self.mode == "insert" else self.buffer.message
            await self.draw(self.terminal.size[0] - 1, "", [status], filler="~")
            key = await self._key()
            if not key:
                return 1
            if self.mode == "insert":
                self._insert(key)
            elif await self._command(ARROWS.get(key) or key.decode("utf-8", "replace")):
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
        elif key in ARROWS:
            self._move(ARROWS[key], 1)
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
        elif char in "xDpPJuCr":
            await self._change(char, count)
        elif char == ":":
            return await self._line(await self.ask(":"))
        elif char in "/?":
            self.pattern = await self.ask(char) or self.pattern
            buffer.search(self.pattern, 1 if char == "/" else -1)
        elif char in "nN" and self.pattern:
            buffer.search(self.pattern, 1 if char == "n" else -1)
        elif char == "Z":
            return await self._key() in (b"Z", b"Q") and (not buffer.changed or buffer.save())
        elif char == "g":
            await self._key()
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
        target = (await self._key()).decode("utf-8", "replace")
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
            new = (await self._key()).decode("utf-8", "replace")
            buffer.lines[buffer.row] = line[:at] + new + line[at + 1 :]
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
