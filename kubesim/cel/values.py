"""The values of CEL that Python has no like of, and what every value can be asked: its type, size, order, equality.

Numbers are ``int``, ``Uint`` and ``float``, timestamps and durations those of ``datetime``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kubesim.times import parse_go_duration


class CelError(ValueError):
    """A text that is no expression, or an expression that has no value; the message is CEL's."""


class CostError(CelError):
    """An expression takes too long; no other part of it makes up for that."""


class Uint(int):
    """A number without a sign."""


class Unordered(list[Any]):
    """A list whose entries have no order, as sets and keyed lists of schemas have none."""


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing."""

    has: bool = False
    held: Any = None


NONE = Optional()
NO_OVERLOAD = "no such overload"
TOO_DEAR = "operation cancelled: actual cost limit exceeded"
LARGEST_VALUE = 10_000_000
"""How many characters or items a value may have."""
LARGEST, SMALLEST, LARGEST_UINT = 2**63 - 1, -(2**63), 2**64 - 1
TIME = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
NAMES: tuple[tuple[type, str], ...] = (
    (bool, "bool"), (Uint, "uint"), (int, "int"), (float, "double"), (str, "string"), (bytes, "bytes"),
    (list, "list"), (Mapping, "map"), (TypeValue, "type"), (Optional, "optional_type"),
    (datetime, "google.protobuf.Timestamp"), (timedelta, "google.protobuf.Duration"),
)  # fmt: skip
SIZED = (str, bytes, list, Mapping)
KEYS = (bool, int, float, str)
"""What a map may have as its keys, or may be asked for."""
CONSTANTS = {
    name: TypeValue(name)
    for name in ("bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "type", "uint",
                 "google.protobuf.Timestamp", "google.protobuf.Duration", "optional_type")
}  # fmt: skip


def check_size(count: int) -> None:
    """Raise CostError for a value that is larger than any that an expression could pay for."""
    if count > LARGEST_VALUE:
        raise CostError(TOO_DEAR)


def type_of(value: Any) -> str:
    """Return the name of a value's type."""
    return next((name for kind, name in NAMES if isinstance(value, kind)), "null_type")


def is_number(value: Any) -> bool:
    """Tell a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def size(value: Any) -> int:
    """Return how much there is to look at in a value, for what it costs."""
    if isinstance(value, Optional) and value.has:
        return size(value.held)
    return len(value) if isinstance(value, SIZED) else 1


def equal(one: Any, other: Any) -> bool:
    """Tell whether two values are the same; numbers of different types may be, other types never are."""
    if is_number(one) and is_number(other):
        return bool(one == other)
    if isinstance(one, Unordered) and isinstance(other, Unordered):
        return len(one) == len(other) and all(any(equal(item, found) for found in other) for item in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, Optional) and isinstance(other, Optional):
        return one.has == other.has and equal(one.held, other.held)
    return type_of(one) == type_of(other) and bool(one == other)


def compare(one: Any, other: Any) -> int:
    """Return -1, 0 or 1 as one value comes before, with or after another. Raises CelError for what has no order."""
    same = type_of(one) == type_of(other) and isinstance(one, bool | str | bytes | datetime | timedelta)
    if not same and not (is_number(one) and is_number(other)):
        raise CelError(NO_OVERLOAD)
    return int(one > other) - int(one < other)


def timestamp(text: str) -> datetime:
    """Read a time as RFC 3339 writes it. Raises CelError."""
    found = TIME.fullmatch(text)
    try:
        whole = (
            datetime.fromisoformat(f"{found[1].upper()}{found[3].upper().replace('Z', '+00:00')}") if found else None
        )
    except ValueError:
        whole = None
    if found is None or whole is None:
        raise CelError("type conversion error from 'string' to 'google.protobuf.Timestamp'")
    return whole + timedelta(seconds=float(found[2] or 0))


def duration(text: str) -> timedelta:
    """Read a length of time as Go writes it. Raises CelError."""
    try:
        return timedelta(seconds=parse_go_duration(text))
    except ValueError as error:
        raise CelError("type conversion error from 'string' to 'google.protobuf.Duration'") from error


def shown(value: Any) -> str:
    """Return a value as ``string()`` makes a text of it. Raises CelError for what no text is made of."""
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case float():
            return _shown_double(value)
        case int():
            return str(int(value))
        case bytes():
            return value.decode(errors="replace")
        case datetime():
            whole = value.astimezone(UTC).isoformat().replace("+00:00", "Z")
            return whole.replace("0Z", "Z") if "." in whole else whole
        case timedelta():
            return f"{_shown_double(value.total_seconds())}s"
    raise CelError(NO_OVERLOAD)


def _shown_double(value: float) -> str:
    """Return a number as Go's shortest form has it."""
    if value != value or value in (float("inf"), float("-inf")):
        return {"inf": "+Inf", "-inf": "-Inf"}.get(str(value), "NaN")
    text = repr(value)
    if "e" in text:
        return re.sub(r"\.0e", "e", text)
    return text.removesuffix(".0") if abs(value) < 1e21 else f"{value:e}"
