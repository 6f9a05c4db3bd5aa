"""What templates may call, and values as Go's fmt prints them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from html import escape
from typing import Any
from urllib.parse import quote_plus

_VERB = re.compile(r"%([-+# 0]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
LONGEST = 1 << 14
MOST_PLACES = 1000


class CallError(Exception):
    """Why a function of a template cannot be called so."""


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


def shown(value: Any, *, none: str = "<nil>") -> str:
    """Return a value as ``%v`` prints it."""
    if value is None:
        return none
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


def sprint(values: list[Any], *, line: bool = False) -> str:
    """Return values as ``fmt.Sprint`` joins them: a blank between two that are no texts."""
    out = ""
    for at, value in enumerate(values):
        if at and (line or not (isinstance(value, str) or isinstance(values[at - 1], str))):
            out += " "
        out += shown(value)
    return out + "\n" * line


def sprintf(form: Any, *values: Any) -> str:
    """Return a text as ``fmt.Sprintf`` makes it."""
    rest = list(values)

    def one(match: re.Match[str]) -> str:
        flags, width, digits, verb = match.groups()
        if verb == "%":
            return "%"
        if not rest:
            return f"%!{verb}(MISSING)"
        text = _formatted(flags, digits, verb, rest.pop(0))
        wide = min(int((width or "0")[:9]), LONGEST)
        if "-" in flags:
            return text.ljust(wide)
        return text.zfill(wide) if "0" in flags and verb in "dfxXob" else text.rjust(wide)

    out = _VERB.sub(one, str(form))
    if rest:
        out += f"%!(EXTRA {', '.join(f'{kind_of(each)}={shown(each)}' for each in rest)})"
    return out


def _formatted(flags: str, digits: str | None, verb: str, value: Any) -> str:
    if verb in "vs" or verb == "t" and isinstance(value, bool):
        if verb == "s" and isinstance(value, int | float):
            return f"%!s({kind_of(value)}={shown(value)})"
        text = shown(value) if value is not None or verb == "v" else "%!s(<nil>)"
        return text[: int(digits)] if digits and verb == "s" else text
    if verb == "T":
        return "<nil>" if value is None else kind_of(value)
    if verb == "q" and isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if verb in "dxXobc" and isinstance(value, int) and not isinstance(value, bool):
        return f"{'+' if '+' in flags and value >= 0 else ''}{value:{verb}}"
    if verb in "feg" and isinstance(value, float):
        places = min(int(digits or 6), MOST_PLACES)
        return f"{value:.{places}{verb}}" if verb != "g" else number(value)
    if verb in "xX" and isinstance(value, str):
        return value.encode().hex() if verb == "x" else value.encode().hex().upper()
    return f"%!{verb}({kind_of(value)}={shown(value)})" if value is not None else f"%!{verb}(<nil>)"


def truth(value: Any) -> bool:
    """Tell whether a value counts as true: not nothing, not zero, not empty."""
    return bool(value)


def _length(value: Any) -> int:
    if value is None:
        raise CallError("len of nil pointer")
    if not isinstance(value, str | list | Mapping):
        raise CallError(f"len of type {kind_of(value)}")
    return len(value.encode()) if isinstance(value, str) else len(value)


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if value is None:
            raise CallError("index of untyped nil")
        if isinstance(value, Mapping):
            if not isinstance(key, str):
                raise CallError(f"value has type {kind_of(key)}; should be string")
            value = value.get(key)
        elif isinstance(value, list | str):
            if not isinstance(key, int):
                raise CallError(f"cannot index slice/array with type {kind_of(key)}")
            if not 0 <= key < len(value):
                raise CallError(f"index out of range: {key}")
            value = value[key] if isinstance(value, list) else value.encode()[key]
        else:
            raise CallError(f"can't index item of type {kind_of(value)}")
    return value


def _slice(value: Any, *bounds: Any) -> Any:
    if not isinstance(value, str | list):
        raise CallError(f"can't slice item of type {kind_of(value)}")
    low, high = [*bounds, *(0, len(value))[len(bounds) :]][:2] if len(bounds) < 3 else bounds[:2]
    if not all(isinstance(each, int) and 0 <= each <= len(value) for each in (low, high)):
        raise CallError(f"index out of range: {high if isinstance(low, int) and 0 <= low <= len(value) else low}")
    if low > high:
        raise CallError(f"invalid slice index: {low} > {high}")
    return value[low:high]


def _sort(value: Any) -> str:
    return {bool: "bool", int: "int", float: "float", str: "string"}.get(type(value), "")


def _same(one: Any, *others: Any) -> bool:
    if not others:
        raise CallError("missing argument for comparison")
    for other in others:
        if one is None or other is None:
            if one is other:
                return True
            continue
        if not _sort(one) or not _sort(other):
            raise CallError("non-comparable type " + f"{shown(one)}: {kind_of(one)}")
        if _sort(one) != _sort(other):
            raise CallError("incompatible types for comparison")
        if one == other:
            return True
    return False


def _less(one: Any, other: Any) -> bool:
    if not _sort(one) or not _sort(other) or isinstance(one, bool):
        raise CallError("invalid type for comparison")
    if _sort(one) != _sort(other):
        raise CallError("incompatible types for comparison")
    found: bool = one < other
    return found


def _decoded(text: Any) -> str:
    try:
        return base64.b64decode(str(text), validate=True).decode("utf-8", "replace")
    except ValueError as error:
        raise CallError("illegal base64 data at input byte 0") from error


def _js(*values: Any) -> str:
    text = json.dumps(sprint([*values]), ensure_ascii=False)[1:-1].replace("'", "\\'")
    return re.sub(r"[<>&=]", lambda match: f"\\u{ord(match[0]):04X}", text)


def _exists(value: Any, *keys: Any) -> bool:
    try:
        return _index(value, *keys) is not None
    except CallError:
        return False


def _html(*values: Any) -> str:
    return escape(sprint([*values])).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "and": lambda *values: next((each for each in values if not truth(each)), values[-1]),
    "or": lambda *values: next((each for each in values if truth(each)), values[-1]),
    "not": lambda value: not truth(value),
    "len": _length,
    "index": _index,
    "slice": _slice,
    "print": lambda *values: sprint([*values]),
    "println": lambda *values: sprint([*values], line=True),
    "printf": sprintf,
    "html": _html,
    "js": _js,
    "urlquery": lambda *values: quote_plus(sprint([*values])),
    "eq": _same,
    "ne": lambda one, other: not _same(one, other),
    "lt": _less,
    "le": lambda one, other: _less(one, other) or _same(one, other),
    "gt": lambda one, other: not _less(one, other) and not _same(one, other),
    "ge": lambda one, other: not _less(one, other),
    "base64decode": _decoded,
    "exists": _exists,
}
