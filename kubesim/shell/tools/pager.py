"""less and more."""

from __future__ import annotations

from kubesim.shell import regexes
from kubesim.shell.lineedit import Keyboard
from kubesim.shell.machine import Process, Tool
from kubesim.shell.terminal import Terminal
from kubesim.shell.tools import kit
from kubesim.shell.tools.buffer import ARROWS, LARGEST
from kubesim.shell.tools.text import cat


async def less(process: Process) -> int:
    """Show a text page by page; without a terminal, all of it."""
    terminal = process.tty(1)
    if terminal is None:
        return await cat(process)
    opts = await kit.options(process)
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
            char = ARROWS.get(key) or key.decode("utf-8", "replace")
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


TOOLS: dict[str, Tool] = {"less": less, "more": less}
