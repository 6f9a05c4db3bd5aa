"""JSON that somebody else has written, read with limits: of depth and number of values, and of what numbers may be.

A megabyte of brackets is a hundred megabytes of objects, a thousand lists in each other end the stack of whoever
compares them, and half a surrogate pair can be held but not encoded: none may reach expressions or the database.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

MAX_DEPTH = 32
MAX_VALUES = 50_000


class Refused(ValueError):
    """A text is no JSON, or not within the limits."""


def load_json(text: str | bytes) -> Any:
    """Return the value of a text. Raises Refused; whoever calls bounds the length."""
    try:
        value = json.loads(text, parse_int=_int64, parse_constant=_refuse)
        _check_size(value)
    except (ValueError, RecursionError) as exc:
        raise Refused(str(exc)) from exc
    return value


def _int64(digits: str) -> int | float:
    number = int(digits[:30])
    return number if -(2**63) <= number < 2**63 else float(digits)


def _refuse(constant: str) -> None:
    raise Refused(f"{constant} is no JSON")


def _check_size(value: Any) -> None:
    level, count = [value], 1
    for _ in range(MAX_DEPTH):
        level = [part for whole in level for part in _parts(whole)]
        count += len(level)
        if not level:
            return
        if count > MAX_VALUES:
            raise Refused(f"more than {MAX_VALUES} values")
    raise Refused(f"deeper than {MAX_DEPTH} levels")


def _parts(value: Any) -> Iterable[Any]:
    """Return what a value consists of. Raises UnicodeEncodeError, a ValueError, for text that is none."""
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, dict):
        for key in value:
            key.encode()
        return value.values()
    return value if isinstance(value, list) else ()
