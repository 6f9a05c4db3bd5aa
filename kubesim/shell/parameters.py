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


async def expand(expander: Expander, param: Param) -> Pieces:
    """Return what a parameter gives; raises ShellError for one that must be set or a bad form."""
    _refuse_foreign(expander, param)
    shell = expander.shell
    index = await expander.value(param.index) if param.index else None
    if param.before == "!" and index in ("@", "*"):
        variable = shell.state.variables.get(param.name)
        return _many(expander, list(variable.items()) if variable else [], param)
    name = param.name
    if param.before == "!":
        name = shell.parameter(name) or ""
        found = re.fullmatch(r"(\w+)\[(.*)\]", name)
        name, index = (found[1], found[2]) if found else (name, None)
    values = elements(expander, name, index)
    if param.before == "#":
        return _one(str(_length(expander, name, index, values)), param)
    if values is not None:
        return await _list(expander, param, values, name)
    return await _scalar(expander, param, name, index)


def _refuse_foreign(expander: Expander, param: Param) -> None:
    dialect, op = expander.shell.dialect, param.op
    foreign = dialect != "bash" and (op[:1] in ("^", ",", "@") or param.before == "!")
    if op == "bad" or foreign or dialect == "dash" and (op[:1] == "/" or op == ":"):
        texts = {"bash": f"{param.source}: bad substitution", "dash": "Bad substitution"}
        raise ShellError(texts.get(dialect, "syntax error: bad substitution"))


def elements(expander: Expander, name: str, index: str | None) -> list[str] | None:
    """Return the values of ``$@``, ``$*`` or all of an array; None for a single value."""
    state = expander.shell.state
    if name in ("@", "*"):
        return list(state.positional)
    if index in ("@", "*"):
        variable = state.variables.get(name)
        return list(variable.items().values()) if variable else []
    return None


def _length(expander: Expander, name: str, index: str | None, values: list[str] | None) -> int:
    if values is not None:
        return len(values)
    value = _get(expander, name, index)
    if value is None and "nounset" in expander.shell.state.options:
        raise expander.shell.unset(name)
    return len(value or "")


def _get(expander: Expander, name: str, index: str | None) -> str | None:
    if index is None:
        return expander.shell.parameter(name)
    return expander.shell.element(name, index)


def _one(text: str, param: Param) -> Pieces:
    return [Piece(text, param.quoted, not param.quoted)]


def _many(expander: Expander, values: list[str], param: Param) -> Pieces:
    starred = param.name == "*" or _starred(param)
    if param.quoted and starred:
        ifs = expander.shell.state.get("IFS")
        joint = " " if ifs is None else ifs[:1]
        return [Piece(joint.join(values), True)]
    found: Pieces = []
    for number, value in enumerate(values):
        if number:
            found.append(None)
        found.append(Piece(value, param.quoted, not param.quoted))
    return found


def _starred(param: Param) -> bool:
    return bool(param.index) and getattr(param.index[0], "value", "") == "*" if param.index else False


async def _list(expander: Expander, param: Param, values: list[str], name: str) -> Pieces:
    """Apply an operator to every element."""
    op = param.op
    if op.lstrip(":") in ("-", "=", "?", "+") and op:
        empty = not values or op.startswith(":") and not any(values)
        return await _alternative(expander, param, name, " ".join(values), empty=empty, many=values)
    if op == ":":
        whole = [expander.shell.name, *values] if name in ("@", "*") else values
        first, last = await _range(expander, param, len(whole))
        return _many(expander, whole[first:last], param)
    if op:
        values = [await _operate(expander, param, value) for value in values]
    return _many(expander, values, param)


async def _scalar(expander: Expander, param: Param, name: str, index: str | None) -> Pieces:
    value = _get(expander, name, index)
    op = param.op
    if op and op.lstrip(":") in ("-", "=", "?", "+"):
        return await _alternative(
            expander, param, name, value or "", empty=not value if op[0] == ":" else value is None
        )
    if value is None:
        if "nounset" in expander.shell.state.options and name not in ("!",):
            raise expander.shell.unset(name)
        value = ""
    if op == ":":
        first, last = await _range(expander, param, len(value))
        value = value[first:last]
    elif op:
        value = await _operate(expander, param, value)
    return _one(value, param)


async def _alternative(
    expander: Expander, param: Param, name: str, value: str, *, empty: bool, many: list[str] | None = None
) -> Pieces:
    kind = param.op[-1]
    if kind == "+":
        return [] if empty else await _argument(expander, param)
    if not empty:
        return _many(expander, many, param) if many is not None else _one(value, param)
    if kind == "-":
        return await _argument(expander, param)
    text = await expander.value(param.arg or ())
    if kind == "=":
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ShellError(f"${name}: cannot assign in this way", 1)
        expander.shell.state.set(name, text)
        return _one(text, param)
    bash = expander.shell.dialect == "bash"
    standard = "parameter null or not set" if param.op == ":?" and bash else "parameter not set"
    status = 2 if not bash else 1 if expander.shell.subshell else 127
    raise ShellError(f"{name}: {text or standard}", status)


async def _argument(expander: Expander, param: Param) -> Pieces:
    return await expander.pieces(param.arg or (), splitting=not param.quoted)


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
