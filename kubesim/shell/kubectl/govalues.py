"""Values as Go prints and compares them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


class CompareError(Exception):
    """Why two values cannot be compared."""


def unquoted(text: str) -> str:
    """Return the text of a Go string literal."""
    if text[0] == "`":
        return text[1:-1]

    def one(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) > 1 and code[0] in "xuU":
            return chr(int(code[1:], 16))
        return chr(int(code, 8)) if code.isdigit() else _ESCAPES.get(code, code)

    return re.sub(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U000[0-9a-fA-F]{5}|[0-7]{3}|.)", one, text[1:-1])


def kind_of(value: Any) -> str:
    """Return a value's type as Go names it."""
    if value is None:
        return "nil"
    names: dict[type, str] = {bool: "bool", int: "int", float: "float64", str: "string"}
    return names.get(type(value)) or ("map[string]interface {}" if isinstance(value, Mapping) else "[]interface {}")


def shown(value: Any) -> str:
    """Return a value as ``%v`` prints it."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{shown(each)}' for key, each in sorted(value.items()))}]"
    if isinstance(value, list | tuple):
        return f"[{' '.join(shown(each) for each in value)}]"
    return str(value)


def number(value: float) -> str:
    """Return a float as ``%v`` prints it: the shortest text, with an exponent where it is long."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "+Inf" if value > 0 else "-Inf"
    exponent = Decimal(repr(value)).adjusted() if value else 0
    if -4 <= exponent < 21:
        text = format(Decimal(repr(value)), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    digits = "".join(map(str, Decimal(repr(value)).as_tuple().digits)).rstrip("0")
    sign, rest = "-" if value < 0 else "", f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{rest}e{'+' if exponent >= 0 else '-'}{abs(exponent):02d}"


def _sort(value: Any) -> str:
    return {bool: "bool", int: "int", float: "float", str: "string"}.get(type(value), "")


def _same(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    if not _sort(one) or not _sort(other):
        raise CompareError("non-comparable type " + f"{shown(one)}: {kind_of(one)}")
    if _sort(one) != _sort(other):
        raise CompareError("incompatible types for comparison")
    return bool(one == other)


def _less(one: Any, other: Any) -> bool:
    if not _sort(one) or not _sort(other) or isinstance(one, bool):
        raise CompareError("invalid type for comparison")
    if _sort(one) != _sort(other):
        raise CompareError("incompatible types for comparison")
    found: bool = one < other
    return found


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": _same,
    "!=": lambda one, other: not _same(one, other),
    "<": _less,
    "<=": lambda one, other: _less(one, other) or _same(one, other),
    ">": lambda one, other: not _less(one, other) and not _same(one, other),
    ">=": lambda one, other: not _less(one, other),
}
