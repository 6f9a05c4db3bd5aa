"""Builtins of whoever types: history, and complete, which says what completes the words of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesim.shell.state import ShellError, options

if TYPE_CHECKING:
    from kubesim.shell.interp import Shell

COMPLETE_USAGE = (
    "[-abcdefgjksuv] [-pr] [-DEI] [-o option] [-A action] [-G globpat] [-W wordlist] "
    "[-F function] [-C command] [-X filterpat] [-P prefix] [-S suffix] [name ...]"
)


async def history(shell: Shell, argv: list[str]) -> int:
    """Show or forget what was typed."""
    lines = shell.typed
    given, words = options(argv, "c", "[-c] [n]")
    if "c" in given:
        lines.clear()
    elif words and not words[0].isdecimal():
        raise ShellError(f"{words[0]}: numeric argument required", 1)
    for index in range(max(len(lines) - int(words[0]), 0) if words else 0, len(lines)):
        await shell.process.write(f"{index + 1:5d}  {lines[index]}\n")
    return 0


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
