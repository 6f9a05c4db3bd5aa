"""The builtin complete: which function completes the words of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubesim.shell.interp import Shell

VALUED = "oAGWFCXPS"
USAGE = (
    "complete: usage: complete [-abcdefgjksuv] [-pr] [-DEI] [-o option] [-A action] [-G globpat] [-W wordlist] "
    "[-F function] [-C command] [-X filterpat] [-P prefix] [-S suffix] [name ...]\n"
)


async def complete(shell: Shell, argv: list[str]) -> int:
    """Say how the words of commands are completed, or show it."""
    words, given, names = argv[1:], "", []
    spec: list[tuple[str, str]] = []
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word == "-":
            names.append(word)
        elif word[1] in VALUED:
            value = word[2:] or (words.pop(0) if words else "")
            spec.append((word[1], value))
        elif set(word[1:]) - set("abcdefgjksuvprDEI"):
            await shell.complain(f"{word}: invalid option", "complete")
            await shell.process.error(USAGE)
            return 2
        else:
            given += word[1:]
    if "r" in given:
        return await _forget(shell, names)
    if "p" in given or not argv[1:]:
        return await _show(shell, names)
    if not names:
        await shell.process.error(USAGE)
        return 2
    told = "".join(f"-{letter} {value} " for letter, value in spec) + "".join(f"-{letter} " for letter in given)
    shell.completed |= dict.fromkeys(names, told)
    shell.state.charge(sum(map(len, names)) + len(told))
    return 0


async def _show(shell: Shell, names: list[str]) -> int:
    status = 0
    for name in names or sorted(shell.completed):
        if name in shell.completed:
            await shell.process.write(f"complete {shell.completed[name]}{name}\n")
        else:
            await shell.complain(f"{name}: no completion specification", "complete")
            status = 1
    return status


async def _forget(shell: Shell, names: list[str]) -> int:
    status = 0
    if not names:
        shell.completed.clear()
    for name in names:
        if shell.completed.pop(name, None) is None:
            await shell.complain(f"{name}: no completion specification", "complete")
            status = 1
    return status


TABLE = {"complete": complete}
