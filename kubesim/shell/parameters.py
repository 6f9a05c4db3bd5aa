"""``$name`` and ``${...}`` in all their forms."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kubesim.shell import patterns
from kubesim.shell.nodes import Param, Piece, Pieces
from kubesim.shell.quoting import quote
from kubesim.shell.state import OutOfMemory, ShellError

if TYPE_CHECKING:
    from kubesim.shell.expand import Expander


ALTERNATIVES = frozenset({"-", "=", "?", "+", ":-", ":=", ":?", ":+"})


async def expand(expander: Expander, param: Param) -> Pieces:
    """Return what a parameter gives; raises ShellError for one that must be set or a bad form."""
    _refuse_foreign(expander, param)
    shell, name, op = expander.shell, param.name, param.op
    index = await expander.value(param.index) if param.index else None
    if param.before == "!" and index in ("@", "*"):
        variable = shell.state.variables.get(name)
        return _pieces(expander, list(variable.items()) if variable else [], param)
    if param.before == "!":
        name = shell.parameter(name) or ""
        found = re.fullmatch(r"(\w+)\[(.*)\]", name)
        name, index = (found[1], found[2]) if found else (name, None)
    subject = _subject(expander, name, index)
    if op in ALTERNATIVES:
        return await _alternative(expander, param, name, subject)
    if subject is None:
        if "nounset" in shell.state.options and name != "!":
            raise shell.unset(name)
        subject = ""
    if param.before == "#":
        subject = str(len(subject))
    elif op == ":":
        subject = [shell.name, *subject] if name in ("@", "*") else subject
        first, last = await _range(expander, param, len(subject))
        subject = subject[first:last]
    elif op:
        values = [await _operate(expander, param, value) for value in _listed(subject)]
        subject = values if isinstance(subject, list) else values[0]
    return _pieces(expander, subject, param)


def _refuse_foreign(expander: Expander, param: Param) -> None:
    if param.op == "bad":
        raise ShellError(f"{param.source}: bad substitution")


def _subject(expander: Expander, name: str, index: str | None) -> str | list[str] | None:
    """Return a value, or those of ``$@``, ``$*`` or all of an array; None where there is none."""
    state = expander.shell.state
    if name in ("@", "*"):
        return list(state.positional)
    if index in ("@", "*"):
        variable = state.variables.get(name)
        return list(variable.items().values()) if variable else []
    return expander.shell.parameter(name) if index is None else expander.shell.element(name, index)


def _listed(subject: str | list[str] | None) -> list[str]:
    return [] if subject is None else [subject] if isinstance(subject, str) else subject


def _pieces(expander: Expander, subject: str | list[str], param: Param) -> Pieces:
    """Return a value, or several as fields or, starred and quoted, joined."""
    starred = param.name == "*" or bool(param.index) and getattr((param.index or ("",))[0], "value", "") == "*"
    if param.quoted and starred:
        ifs = expander.shell.state.get("IFS")
        return [Piece((" " if ifs is None else ifs[:1]).join(_listed(subject)), True)]
    found: Pieces = []
    for value in _listed(subject):
        found += [None, Piece(value, param.quoted, not param.quoted)]
    return found[1:]


async def _alternative(expander: Expander, param: Param, name: str, subject: str | list[str] | None) -> Pieces:
    """Do ``${name:-word}`` and its like."""
    kind, shell = param.op[-1], expander.shell
    values = _listed(subject)
    empty = not values or param.op[0] == ":" and not any(values)
    if not empty and kind != "+":
        return _pieces(expander, subject or "", param)
    if kind in "-+":
        return [] if empty and kind == "+" else await expander.pieces(param.arg or (), splitting=not param.quoted)
    text = await expander.value(param.arg or ())
    if kind == "=":
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ShellError(f"${name}: cannot assign in this way", 1)
        shell.state.set(name, text)
        return _pieces(expander, text, param)
    standard = "parameter null or not set" if param.op == ":?" else "parameter not set"
    raise ShellError(f"{name}: {text or standard}", 1 if shell.subshell else 127)


async def _range(expander: Expander, param: Param, size: int) -> tuple[int, int]:
    first = await expander.calculate(param.arg or ())
    if first < 0:
        first += size
        if first < 0:
            return 0, 0
    if param.more is None:
        return first, size
    count = await expander.calculate(param.more)
    if count < 0:
        if size + count < first:
            raise ShellError(f"{count}: substring expression < 0", 1)
        return first, size + count
    return first, min(first + count, size)


async def _operate(expander: Expander, param: Param, value: str) -> str:
    op = param.op
    await expander.shell.process.tick(32)
    extended = "extglob" in expander.shell.state.shopt
    if op[0] in "#%":
        return patterns.remove(await expander.pattern(param.arg or ()), value, op, extended=extended)
    if op[0] == "/":
        pattern = await expander.pattern(param.arg or ())
        new = await expander.value(param.more or ())
        found = patterns.substitute(pattern, value, new, op, extended=extended)
        if len(found) > 1 << 20:
            raise OutOfMemory(f"xrealloc: cannot allocate {len(found)} bytes", 2)
        return found
    if op in ("^^", ",,"):
        return value.upper() if op == "^^" else value.lower()
    if op in ("^", ","):
        return (value[:1].upper() if op == "^" else value[:1].lower()) + value[1:]
    letter = await expander.value(param.arg or ())
    if letter != "Q":
        raise ShellError(f"{param.source}: bad substitution")
    return quote(value, always=True)
