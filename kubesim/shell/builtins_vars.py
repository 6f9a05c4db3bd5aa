"""Builtins about what a shell remembers: export, set, local, declare, alias, umask."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kubesim.shell.errors import POSIX
from kubesim.shell.quoting import quote
from kubesim.shell.state import NAMED_ONLY, OPTIONS, ReadOnly, ShellError, Variable, options

if TYPE_CHECKING:
    from kubesim.shell.interp import Shell

_NAME = re.compile(r"[A-Za-z_]\w*")
_GIVEN = re.compile(r"([A-Za-z_]\w*)(?:\[(.*?)\])?(\+?)=(.*)", re.DOTALL)
SHOPT = {"expand_aliases", "extglob", "dotglob", "nullglob", "globstar", "nocasematch", "lastpipe", "checkwinsize"}


def _give(shell: Shell, word: str) -> Variable:
    """Do ``name=value`` of an argument and return the variable."""
    name, index, append, value = _parts(word)
    if value is None:
        return shell.declare(name)
    if value.startswith("\0"):
        return _give_array(shell, name, value, append=append)
    variable = shell.state.variable(name)
    if append:
        value = (shell.state.get(name) or "") + value
    if variable.integer:
        value = str(shell.expander.arithmetic(value))
    shell.state.set(name, value, index=shell.index(name, index) if index is not None else None)
    return shell.state.variables[name]


def _give_array(shell: Shell, name: str, value: str, *, append: bool) -> Variable:
    variable = shell.state.variable(name)
    items = variable.items() if append else {}
    start = len(items)
    for number, pair in enumerate(filter(None, value[1:].split("\0"))):
        key, _, text = pair.partition("\1")
        items[key if not append else str(start + number)] = text
    if not variable.associative and not all(key.lstrip("-").isdecimal() for key in items):
        items = {str(number): text for number, text in enumerate(items.values())}
    shell.state.charge(sum(map(len, items.values())))
    shell.state.put_items(variable, items)
    return variable


def _parts(word: str) -> tuple[str, str | None, bool, str | None]:
    match = _GIVEN.fullmatch(word)
    if match:
        return match[1], match[2], bool(match[3]), match[4]
    if not _NAME.fullmatch(word):
        raise ShellError(f"`{word}': not a valid identifier")
    return word, None, False, None


async def export(shell: Shell, argv: list[str]) -> int:
    """Pass variables on to programs, or make them read-only."""
    flags, args = options(argv, "aAfnp", "[-aAf] [name[=value] ...] or readonly -p")
    attribute = "exported" if argv[0] == "export" else "readonly"
    if not args:
        return await _show_marked(shell, argv[0], attribute)
    status = 0
    for word in args:
        try:
            variable = _give(shell, word)
        except ShellError as error:
            if isinstance(error, ReadOnly):
                raise
            await shell.complain(error.text, argv[0])
            status = 1
            continue
        setattr(variable, attribute, "n" not in flags)
    return status


async def _show_marked(shell: Shell, command: str, attribute: str) -> int:
    start = f"declare -{'x' if command == 'export' else 'r'}"
    for name, variable in sorted(shell.state.variables.items()):
        if getattr(variable, attribute):
            text = variable.text()
            await shell.process.write(f"{start} {name}{'' if text is None else '=' + _shown(text)}\n")
    return 0


def _shown(text: str) -> str:
    return '"' + re.sub(r'(["$`\\])', r"\\\1", text) + '"'


async def unset(shell: Shell, argv: list[str]) -> int:
    """Forget variables or functions."""
    flags, names = options(argv, "fvn", "[-f] [-v] [-n] [name ...]")
    for word in names:
        match = re.fullmatch(r"([A-Za-z_]\w*)\[(.*)\]", word)
        if "f" in flags or word not in shell.state.variables and word in shell.state.functions:
            shell.state.functions.pop(word, None)
        elif match:
            _unset_element(shell, match[1], match[2])
        elif _NAME.fullmatch(word):
            shell.state.unset(word)
    return 0


def _unset_element(shell: Shell, name: str, index: str) -> None:
    variable = shell.state.variables.get(name)
    if variable is None:
        return
    items = variable.items()
    items.pop(shell.index(name, index), None)
    shell.state.put_items(variable, items)


async def set_(shell: Shell, argv: list[str]) -> int:
    """Set options and positional parameters, or show variables."""
    args = argv[1:]
    if not args:
        for name, variable in sorted(shell.state.variables.items()):
            text = variable.text()
            if text is not None:
                quoted = quote(text)
                await shell.process.write(f"{name}={quoted}\n")
        return 0
    while args:
        word = args[0]
        if word in ("--", "-"):
            shell.state.positional = args[1:]
            return 0
        if word[:1] not in "+-" or len(word) < 2:
            shell.state.positional = args
            return 0
        args.pop(0)
        await _set_flags(shell, word, args)
    return 0


async def _set_flags(shell: Shell, word: str, args: list[str]) -> None:
    on = word[0] == "-"
    for flag in word[1:]:
        if flag == "o":
            if not args:
                await _show_options(shell)
                return
            name = args.pop(0)
            if name not in {*OPTIONS.values(), *NAMED_ONLY}:
                text = f"{name}: invalid option name"
                raise ShellError(text, 2)
        elif flag in OPTIONS or flag in "BHEPTk":
            name = OPTIONS.get(flag, flag)
        else:
            usage = "set: usage: set [-abefhkmnptuvxBCEHPT] [-o option-name] [--] [-] [arg ...]"
            raise ShellError(f"-{flag}: invalid option\n{usage}", 2)
        (shell.state.options.add if on else shell.state.options.discard)(name)


async def _show_options(shell: Shell) -> None:
    for name in sorted({*OPTIONS.values(), "pipefail"}):
        await shell.process.write(f"{name:<15}\t{'on' if name in shell.state.options else 'off'}\n")


async def local(shell: Shell, argv: list[str]) -> int:
    """Begin variables of a function."""
    if not shell.state.scopes:
        raise ShellError("can only be used in a function")
    return await _declare(shell, argv[1:], begin=True)


async def declare(shell: Shell, argv: list[str]) -> int:
    """Give variables attributes."""
    return await _declare(shell, argv[1:], begin=bool(shell.state.scopes))


async def _declare(shell: Shell, args: list[str], *, begin: bool) -> int:
    flags = ""
    off = ""
    while args and args[0][:1] in ("-", "+") and len(args[0]) > 1:
        word = args.pop(0)
        flags, off = (flags + word[1:], off) if word[0] == "-" else (flags, off + word[1:])
    if "p" in flags or "f" in flags or "F" in flags or not args:
        return await _show_declared(shell, flags, args)
    for word in args:
        name, _, _, value = _parts(word)
        if begin and "g" not in flags:
            shell.state.local(name)
        variable = shell.declare(name)
        variable.associative = variable.associative or "A" in flags
        variable.integer = (variable.integer or "i" in flags) and "i" not in off
        variable.case = "u" if "u" in flags else "l" if "l" in flags else variable.case
        if value is None and ("A" in flags or "a" in flags) and variable.value is None:
            variable.value = {}
        if value is not None:
            variable = _give(shell, word)
        variable.exported = (variable.exported or "x" in flags) and "x" not in off
        variable.readonly = variable.readonly or "r" in flags
    return 0


async def _show_declared(shell: Shell, flags: str, args: list[str]) -> int:
    functions = shell.state.functions
    if "f" in flags or "F" in flags:
        for name in [name for name in args or sorted(functions) if name in functions]:
            short = f"{'' if args else 'declare -f '}{name}"
            await shell.process.write((short if "F" in flags else functions[name][1]) + "\n")
        return int(any(name not in functions for name in args))
    known = shell.state.variables
    for name in [name for name in args or sorted(known) if name in known]:
        await shell.process.write(_declaration(shell, name) + "\n")
    return await shell.lament([name for name in args if name not in known], "not found", "declare")


def _declaration(shell: Shell, name: str) -> str:
    variable = shell.state.variables[name]
    flags = "A" if variable.associative else "a" if isinstance(variable.value, dict) else ""
    flags += "i" * variable.integer + variable.case + "r" * variable.readonly + "x" * variable.exported
    start = f"declare -{flags or '-'} {name}"
    if variable.value is None:
        return start
    if isinstance(variable.value, dict):
        items = " ".join(f"[{key}]={_shown(value)}" for key, value in variable.items().items())
        return f"{start}=({items}{' ' if variable.associative and items else ''})"
    return f"{start}={_shown(variable.value)}"


async def let(shell: Shell, argv: list[str]) -> int:
    """Do arithmetic."""
    return int([0, *map(shell.expander.arithmetic, argv[1:])][-1] == 0)


async def shopt(shell: Shell, argv: list[str]) -> int:
    """Set bash's own options."""
    flags, names = options(argv, "opqsu", "[-pqsu] [-o] [optname ...]")
    for name in names:
        if name not in SHOPT:
            raise ShellError(f"{name}: invalid shell option name", 1)
        if "s" in flags:
            shell.state.shopt.add(name)
        elif "u" in flags:
            shell.state.shopt.discard(name)
        elif "q" not in flags:
            await shell.process.write(f"{name:<15}\t{'on' if name in shell.state.shopt else 'off'}\n")
    if not flags.keys() & {"s", "u"}:
        return int(any(name not in shell.state.shopt for name in names))
    return 0


async def alias(shell: Shell, argv: list[str]) -> int:
    """Define or show aliases."""
    known, words = shell.state.aliases, argv[1:] or sorted(shell.state.aliases)
    for name, _, text in (word.partition("=") for word in words if "=" in word):
        shell.state.charge(len(text))
        known[name] = text
    for name in [word for word in words if word in known]:
        await shell.process.write(_alias_line(name, known[name]))
    return await shell.lament([word for word in words if "=" not in word and word not in known], "not found", "alias")


def _alias_line(name: str, text: str) -> str:
    return f"alias {name}={quote(text, always=True)}\n"


async def unalias(shell: Shell, argv: list[str]) -> int:
    """Forget aliases."""
    flags, names = options(argv, "a", "[-a] name [name ...]")
    if "a" in flags:
        shell.state.aliases.clear()
    unknown = [name for name in names if shell.state.aliases.pop(name, None) is None]
    return await shell.lament(unknown, "not found", "unalias")


async def umask(shell: Shell, argv: list[str]) -> int:
    """Show or set the mask of new files' modes."""
    view = shell.process.view
    args = argv[1:]
    if not args:
        await shell.process.write(f"{view.umask:04o}\n")
    elif re.fullmatch(r"[0-7]{1,4}", args[0]):
        view.umask = int(args[0], 8) & 0o777
    else:
        raise ShellError(f"{args[0]}: octal number out of range")
    return 0


LIMITS: dict[str, tuple[str, str, str]] = POSIX["limits"]
"""Flag -> what it limits, in which unit, and how far."""


async def ulimit(shell: Shell, argv: list[str]) -> int:
    """Show limits; setting one changes nothing that can be seen."""
    flags = "".join(arg[1:] for arg in argv[1:] if arg.startswith("-"))
    if "a" in flags:
        for name, unit, value in LIMITS.values():
            await shell.process.write(f"{name:<20}{unit:>20} {value}\n")
    elif all(arg.startswith("-") for arg in argv[1:]):
        letter = next((flag for flag in flags if flag in LIMITS), "f")
        await shell.process.write(LIMITS[letter][2] + "\n")
    return 0
