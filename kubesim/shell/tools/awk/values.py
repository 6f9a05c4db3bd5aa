"""The values of awk: numbers, texts, and texts that look like numbers."""

from __future__ import annotations

import math
import re
from typing import Any

LONGEST = 1 << 20
MOST_FIELDS = 20_000
MOST_ELEMENTS = 200_000
_NUMBER = re.compile(r"\s*([+-]?(?:\d{1,300}\.?\d{0,300}|\.\d{1,300})(?:[eE][+-]?\d{1,4})?)")


class StrNum(str):
    """Text from outside that looks like a number and compares as one."""

    __slots__ = ()


Value = Any  # float, str, StrNum, or None where unset


class AwkError(Exception):
    """A run that cannot go on."""


def number(value: Value) -> float:
    """Return a value as a number."""
    if isinstance(value, float):
        return value
    if not value:
        return 0.0
    match = _NUMBER.match(value)
    try:
        return float(match[1]) if match else 0.0
    except (ValueError, OverflowError):
        return 0.0


def whole(value: Value) -> int:
    """Return a value as a whole number. Raises AwkError for infinity and what is no number."""
    found = number(value)
    if not math.isfinite(found):
        raise AwkError(f"attempt to access field {shown(found, '%s')}")
    return int(found)


def given(text: str) -> Value:
    """Return text from outside: a number if it looks like one."""
    match = _NUMBER.match(text)
    return StrNum(text) if match and not text[match.end() :].strip() else text


def shown(value: float, form: str) -> str:
    """Return a number as text."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e16:
        return str(int(value))
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    try:
        return form % value
    except (TypeError, ValueError):
        return f"{value:.6g}"
