"""Line editing on a terminal in raw mode: emacs keys, history with search, completion."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kubesim import data
from kubesim.shell.jobs import Interrupted
from kubesim.shell.machine import Process
from kubesim.shell.terminal import Terminal

LONGEST = 8192


@dataclass
class Completion:
    """The word before the cursor and what it may become."""

    word: str
    choices: list[str]
    files: bool = False


Completer = Callable[[str], Awaitable[Completion]]
"""text before the cursor -> its completion."""
KEYS = {key.encode("latin-1"): command for command, keys in data.table(__file__, "keys.yaml").items() for key in keys}
"""Key -> what it does, and up to where."""
_ESCAPE = re.compile(rb"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Z]|O(?=[^A-Z])|[^\[O])")


class Keyboard:
    """Single keys from a terminal: characters, control characters, escape sequences."""

    def __init__(self, process: Process, terminal: Terminal) -> None:
        self.process = process
        self.terminal = terminal
        self.waiting = b""

    async def key(self) -> bytes:
        """Return the next key, ``b""`` at the end of input."""
        while True:
            found = self._take()
            if found:
                return found
            await self.process.flush()
            data = await self.terminal.read(1024)
            if not data:
                last, self.waiting = self.waiting, b""
                return last
            self.waiting += data

    def _take(self) -> bytes:
        data = self.waiting
        if not data:
            return b""
        if data[0] == 0x1B:
            match = _ESCAPE.match(data)
            size = match.end() if match else len(data) if data != b"\x1b" and len(data) > 8 else 0
            if data == b"\x1b" and not self.terminal.pending:
                size = 1
        else:
            size = 1 if data[0] < 0x80 else 2 if data[0] < 0xE0 else 3 if data[0] < 0xF0 else 4
            size = size if len(data) >= size else 0
        found, self.waiting = data[:size], data[size:]
        return found

    def give_back(self) -> None:
        """Return what was typed ahead to the terminal."""
        if self.waiting:
            self.terminal.unread(self.waiting)
            self.waiting = b""


class LineEditor:
    """Reads one line after another."""

    def __init__(self, process: Process, terminal: Terminal, history: list[str], complete: Completer) -> None:
        self.process = process
        self.terminal = terminal
        self.history = history
        self.complete = complete
        self.keyboard = Keyboard(process, terminal)
        self.prompt = ""
        self.text = ""
        self.cursor = 0
        self.row = 0
        self.place = 0
        self.kept = ""
        self.tabs = 0

    async def line(self, prompt: str) -> str | None:
        """Return the line that is typed, None at the end of input; raises Interrupted."""
        self.prompt, self.text, self.cursor, self.row = prompt, "", 0, 0
        self.place, self.kept = len(self.history), ""
        self.terminal.mode(raw=True)
        try:
            await self.process.write(prompt)
            while True:
                key = await self.keyboard.key()
                if key in (b"\r", b"\n"):
                    await self._finish("")
                    return self.text
                if key == b"" or key == b"\x04" and not self.text:
                    return None
                if key == b"\x03":
                    await self._finish("^C")
                    raise Interrupted
                await self._press(key)
        finally:
            self.keyboard.give_back()
            self.terminal.mode(raw=False)

    async def _finish(self, mark: str) -> None:
        if self.cursor != len(self.text):
            self.cursor = len(self.text)
            await self._draw()
        await self.process.write(mark + "\n")
        await self.process.flush()

    async def _press(self, key: bytes) -> None:
        verb, _, where = KEYS.get(key, "").partition(" ")
        self.tabs = self.tabs + 1 if verb == "complete" else 0
        if verb == "recall":
            self._recall(-1 if where == "older" else 1)
        elif where:
            self._reach(verb, self._place(where))
        elif verb:
            await getattr(self, "_key_" + verb)()
        if verb and verb not in ("complete", "clear"):
            await self._draw()
        elif not verb and key[0] >= 0x20 and key[0] != 0x7F:
            await self._insert(key.decode("utf-8", "replace"))

    async def _insert(self, text: str) -> None:
        if len(self.text) + len(text) > LONGEST:
            await self.process.write("\a")
            return
        end = self.cursor == len(self.text)
        self.text = self.text[: self.cursor] + text + self.text[self.cursor :]
        self.cursor += len(text)
        columns = self.terminal.size[1]
        if end and (self._width(self.prompt) + self.cursor) % columns and len(text) == 1:
            await self.process.write(text)
            self.row = (self._width(self.prompt) + self.cursor) // columns
        else:
            await self._draw()

    def _width(self, prompt: str) -> int:
        return len(re.sub(r"\x1b\[[0-9;]*[A-Za-z]|[\x01\x02\a]", "", prompt.rsplit("\n", 1)[-1]))

    async def _draw(self) -> None:
        columns = self.terminal.size[1]
        start = self._width(self.prompt)
        end, at = start + len(self.text), start + self.cursor
        out = (
            "\r" + (f"\x1b[{self.row}A" if self.row else "") + "\x1b[J" + self.prompt.rsplit("\n", 1)[-1] + self.text
        )
        if end % columns == 0 and end:
            out += " \r"
        up = end // columns - at // columns
        out += (f"\x1b[{up}A" if up else "") + "\r" + (f"\x1b[{at % columns}C" if at % columns else "")
        self.row = at // columns
        await self.process.write(out)

    # keys

    def _place(self, where: str) -> int:
        """Return the place of the cursor that a key means."""
        head, tail = self.text[: self.cursor], self.text[self.cursor :]
        places = {
            "start": 0,
            "end": len(self.text),
            "left": max(self.cursor - 1, 0),
            "right": min(self.cursor + 1, len(self.text)),
            "blank": head.rstrip().rfind(" ") + 1,
            "word_left": self.cursor - _word(head[::-1]),
            "word_right": self.cursor + _word(tail),
        }
        return places[where]

    def _reach(self, verb: str, place: int) -> None:
        """Move the cursor, or take what lies on the way."""
        start, end = sorted((self.cursor, place))
        if verb != "go":
            self.text = self.text[:start] + self.text[end:]
        self.cursor = place if verb == "go" else start

    async def _key_clear(self) -> None:
        self.row = 0
        await self.process.write("\x1b[H\x1b[2J" + self.prompt.rpartition("\n")[0])
        await self._draw()

    def _recall(self, step: int) -> None:
        if not 0 <= self.place + step <= len(self.history):
            return
        if self.place == len(self.history):
            self.kept = self.text
        self.place += step
        self.text = self.history[self.place] if self.place < len(self.history) else self.kept
        self.cursor = len(self.text)

    async def _key_search(self) -> None:
        """Search the history backwards while the pattern is typed."""
        pattern, at = "", len(self.history)
        found, prompt = "", self.prompt
        while True:
            self.prompt = f"(reverse-i-search)`{pattern}': "
            self.text, self.cursor = found, found.find(pattern) if pattern in found else len(found)
            await self._draw()
            key = await self.keyboard.key()
            if key == b"\x12":
                at, found = self._find(pattern, at - 1, found)
            elif key in (b"\x7f", b"\x08"):
                pattern = pattern[:-1]
                at, found = self._find(pattern, len(self.history) - 1, "")
            elif key[:1] >= b"\x20" and key[:1] != b"\x7f":
                pattern += key.decode("utf-8", "replace")
                at, found = self._find(pattern, min(at, len(self.history) - 1), found)
            else:
                break
        self.prompt = prompt
        if key in (b"\x03", b"\x07"):
            self.text, self.cursor = "", 0
        elif key:
            self.cursor = len(self.text)
            self.keyboard.waiting = (b"" if key == b"\x1b" else key) + self.keyboard.waiting

    def _find(self, pattern: str, start: int, found: str) -> tuple[int, str]:
        for at in range(start, -1, -1):
            if pattern and pattern in self.history[at]:
                return at, self.history[at]
        return start + 1, found

    async def _key_complete(self) -> None:
        found = await self.complete(self.text[: self.cursor])
        word, choices = found.word, found.choices
        common = _common(choices) if choices else ""
        if len(choices) == 1:
            end = "" if found.files and common.endswith("/") else " "
            await self._insert((choices[0] + end)[len(word) :])
            await self._draw()
        elif len(common) > len(word):
            await self._insert(common[len(word) :])
            await self._draw()
        elif self.tabs > 1 and choices:
            await self._show(found)
        else:
            await self.process.write("\a")

    async def _show(self, found: Completion) -> None:
        """List what a word may become, in columns."""
        names = found.choices
        if found.files:
            names = [name.rstrip("/").rpartition("/")[2] + "/" * name.endswith("/") for name in names]
        await self.process.write("\n")
        self.row = 0
        wide = max(map(len, names)) + 2
        count = self.terminal.size[1] // wide
        count = max(count - 1 if count > 1 and count * wide == self.terminal.size[1] else count, 1)
        rows = -(-len(names) // count)
        lines = ["".join(f"{name:<{wide}}" for name in names[row::rows]).rstrip() for row in range(rows)]
        await self.process.write("".join(f"{line}\n" for line in lines))
        await self._draw()


def _word(text: str) -> int:
    """Return the length of a text's first word with what stands before it."""
    match = re.match(r"[\W_]*[^\W_]*", text)
    return match.end() if match else 0


def _common(choices: list[str]) -> str:
    """Return how all choices begin."""
    first, last = min(choices), max(choices)
    size = next((at for at, char in enumerate(first) if last[at : at + 1] != char), len(first))
    return first[:size]
