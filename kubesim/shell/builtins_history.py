"""Builtins about what was typed: history and fc."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kubesim.shell.errors import FileError
from kubesim.shell.recall import Recall, RecallError
from kubesim.shell.state import ShellError

if TYPE_CHECKING:
    from kubesim.shell.interp import Shell

USAGE = "history: usage: history [-c] [-d offset] [n] or history -anrw [filename] or history -ps arg [arg...]\n"
FC_USAGE = "fc: usage: fc [-e ename] [-lnr] [first] [last] or fc -s [pat=rep] [command]\n"
LISTED = 16
"""So many commands are listed by ``fc -l``."""


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
    elif letter == "s":
        if lines:
            lines.pop()
        lines.append(" ".join(words))
    elif letter == "p":
        lines.pop()
        for word in words:
            try:
                await shell.process.write(Recall(lines).expanded(word).text + "\n")
            except RecallError as error:
                raise ShellError(f"{error}".replace(": event not found", ": history expansion failed"), 1) from error
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


async def fc(shell: Shell, argv: list[str]) -> int:
    """List what was typed, or run a line of it again."""
    letters = "".join(word[1:] for word in argv[1:] if re.fullmatch(r"-[a-zA-Z]+", word))
    words = [word for word in argv[1:] if not re.fullmatch(r"-[a-zA-Z]+", word)]
    known = shell.typed[:-1]
    if "s" in letters and shell.typed:
        shell.typed.pop()
    if set(letters) - set("lnrse"):
        await shell.complain(f"-{letters[:1]}: invalid option", "fc")
        await shell.process.error(FC_USAGE)
        return 2
    if "s" in letters:
        return await _again(shell, known, words)
    if "l" not in letters:
        raise ShellError("history specification out of range" if not known else "cannot run an editor here", 1)
    first = _place(known, words[0]) if words else max(len(known) - LISTED, 0)
    last = _place(known, words[1]) if len(words) > 1 else len(known) - 1
    order = range(first, last + 1) if first <= last else range(first, last - 1, -1)
    for index in reversed(order) if "r" in letters else order:
        number = "" if "n" in letters else str(index + 1)
        await shell.process.write(f"{number}\t {known[index]}\n")
    return 0


async def _again(shell: Shell, known: list[str], words: list[str]) -> int:
    changes = [word.split("=", 1) for word in words if "=" in word]
    rest = [word for word in words if "=" not in word]
    if not known:
        raise ShellError("no command found", 1)
    line = known[_place(known, rest[0]) if rest else len(known) - 1]
    for old, new in changes:
        line = line.replace(old, new)
    await shell.process.error(line + "\n")
    shell.typed.append(line)
    return await shell.eval(line)


def _place(known: list[str], word: str) -> int:
    """Return which line a number, a number from the end or a beginning means. Raises ShellError."""
    if re.fullmatch(r"-\d+", word):
        place = len(known) + int(word)
    elif word.isdecimal():
        place = int(word) - 1
    else:
        place = next((at for at in range(len(known) - 1, -1, -1) if known[at].startswith(word)), -1)
    if not 0 <= place < len(known):
        raise ShellError(
            "no command found" if not word.lstrip("-").isdecimal() else "history specification out of range", 1
        )
    return place


TABLE = {"history": history, "fc": fc}
