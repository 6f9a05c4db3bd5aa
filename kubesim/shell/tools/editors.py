"""nano, and the programs that edit a file."""

from __future__ import annotations

import re

from kubesim.shell.errors import FileError
from kubesim.shell.machine import Process, Tool
from kubesim.shell.tools import kit
from kubesim.shell.tools.buffer import ARROWS, Buffer, Screen
from kubesim.shell.tools.vi import Vi


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
        if key in ARROWS or key in (b"\x01", b"\x05"):
            move = {b"\x01": "0", b"\x05": "$"}.get(key) or ARROWS.get(key, "")
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
        await self.process.write(f"\x1b[{self.terminal.size[0] - 2};1H\x1b[KSave modified buffer? ")
        answer = b"?"
        while answer not in (b"y", b"Y", b"n", b"N", b"\x03", b""):
            answer = await self.keys.key()
        if answer in (b"n", b"N", b""):
            return True
        if answer == b"\x03":
            return False
        name = await self.ask(f"File Name to Write: {self.buffer.name}")
        return name is not None and self.buffer.save(self.buffer.name + name)


async def editor(process: Process) -> int:
    """Edit a file on the screen; the program's name says in which manner."""
    opts = await kit.options(process, argv=[word for word in process.argv[1:] if not word.startswith("+")])
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


TOOLS: dict[str, Tool] = {"vi": editor, "vim": editor, "nano": editor}
