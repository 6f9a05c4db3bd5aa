"""Builtins of whoever types: history, and complete, which says what completes the words of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesim.shell.errors import FileError
from kubesim.shell.state import ShellError, options

if TYPE_CHECKING:
    from kubesim.shell.interp import Shell

HISTORY_USAGE = "[-c] [-d offset] [n] or history -anrw [filename] or history -ps arg [arg...]"
COMPLETE_USAGE = (
    "[-abcdefgjksuv] [-pr] [-DEI] [-o option] [-A action] [-G globpat] [-W wordlist] "
    "[-F function] [-C command] [-X filterpat] [-P prefix] [-S suffix] [name ...]"
)


async def history(shell: Shell, argv: list[str]) -> int:
    """Show, change, read or write what was typed."""
    lines = shell.typed
    given, words = options(argv, "cd:anrw", HISTORY_USAGE)
    for letter, text in given.items():
        if letter == "c":
            lines.clear()
        elif letter == "d":
            place = int(text) - 1 if text.isdecimal() else len(lines) + int(text) if text[1:].isdecimal() else -1
            if not 0 <= place < len(lines):
                raise ShellError(f"{text}: history position out of range", 1)
            del lines[place]
        else:
            _file(shell, letter, words[0] if words else shell.state.get("HISTFILE") or "/root/.bash_history")
    if given:
        return 0
    if words and not words[0].isdecimal():
        raise ShellError(f"{words[0]}: numeric argument required", 1)
    for index in range(max(len(lines) - int(words[0]), 0) if words else 0, len(lines)):
        await shell.process.write(f"{index + 1:5d}  {lines[index]}\n")
    return 0


def _file(shell: Shell, letter: str, path: str) -> None:
    view, text = shell.process.view, "".join(f"{line}\n" for line in shell.typed)
    try:
        if letter in "rn":
            shell.typed += view.read(path).decode("utf-8", "replace").splitlines()
        else:
            old = view.read(path) if letter == "a" and view.find(path) is not None else b""
            view.write(path, old + text.encode("utf-8", "surrogateescape"))
    except FileError as error:
        raise ShellError(f"{path}: cannot {'read' if letter in 'rn' else 'write'}: {error.text}", 1) from error


async def complete(shell: Shell, argv: list[str]) -> int:
    """Say how the words of commands are completed, or show or forget it."""
    given, names = options(argv, "abcdefgjksuvprDEIo:A:G:W:F:C:X:P:S:", COMPLETE_USAGE)
    if given and not names and not given.keys() & {"p", "r"}:
        raise ShellError(f"usage: complete {COMPLETE_USAGE}", 2)
    told = "".join(f"-{letter} {value} " if value else f"-{letter} " for letter, value in given.items())
    known = shell.completed
    if names and given and not given.keys() & {"p", "r"}:
        shell.state.charge(sum(map(len, names)) + len(told))
        known |= dict.fromkeys(names, told)
        return 0
    unknown = [name for name in names if name not in known]
    for name in [name for name in names or sorted(known) if name in known]:
        if "r" in given:
            del known[name]
        else:
            await shell.process.write(f"complete {known[name]}{name}\n")
    return await shell.lament(unknown, "no completion specification", "complete")


TABLE = {"history": history, "complete": complete}
