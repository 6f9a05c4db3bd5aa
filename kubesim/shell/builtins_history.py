"""The builtin about what was typed: history."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kubesim.shell.errors import FileError
from kubesim.shell.state import ShellError

if TYPE_CHECKING:
    from kubesim.shell.interp import Shell

USAGE = "history: usage: history [-c] [-d offset] [n] or history -anrw [filename] or history -ps arg [arg...]\n"


async def history(shell: Shell, argv: list[str]) -> int:
    """Show, change, read or write what was typed."""
    lines, words = shell.typed, argv[1:]
    if shell.dialect == "bash" and words and re.fullmatch(r"-[a-zA-Z]+", words[0]):
        return await _changed(shell, words[0][1], words[0][2:], words[1:])
    if words and not words[0].isdecimal():
        if shell.dialect != "bash":
            return 1
        raise ShellError(f"{words[0]}: numeric argument required", 1)
    count = int(words[0]) if words else len(lines)
    for index in range(max(len(lines) - count, 0), len(lines)):
        await shell.process.write(f"{index + 1:5d}  {lines[index]}\n")
    return 0


async def _changed(shell: Shell, letter: str, rest: str, words: list[str]) -> int:
    lines = shell.typed
    if letter == "c":
        lines.clear()
    elif letter == "d":
        text = rest or (words[0] if words else "")
        place = int(text) - 1 if text.isdecimal() else len(lines) + int(text) if text[1:].isdecimal() else -1
        if not 0 <= place < len(lines):
            raise ShellError(f"{text}: history position out of range", 1)
        del lines[place]
    elif letter in "anrw":
        return _filed(shell, letter, words[0] if words else shell.state.get("HISTFILE") or "/root/.bash_history")
    else:
        await shell.complain(f"-{letter}: invalid option", "history")
        await shell.process.error(USAGE)
        return 2
    return 0


def _filed(shell: Shell, letter: str, path: str) -> int:
    view, text = shell.process.view, "".join(f"{line}\n" for line in shell.typed)
    try:
        if letter in "rn":
            shell.typed += view.read(path).decode("utf-8", "replace").splitlines()
        else:
            old = view.read(path) if letter == "a" and view.find(path) is not None else b""
            view.write(path, old + text.encode("utf-8", "surrogateescape"))
    except FileError as error:
        raise ShellError(f"{path}: cannot {'read' if letter in 'rn' else 'write'}: {error.text}", 1) from error
    return 0


TABLE = {"history": history}
