"""Values as Go prints them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


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
