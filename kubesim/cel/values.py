"""The values of CEL that Python has no like of, and the functions of CEL and of Kubernetes' libraries for it.

Numbers are ``int`` and ``float``, times and durations those of ``datetime``; a quantity is a number, and
a question to the authorizer a map. Of the libraries of Kubernetes those for addresses, networks, URLs, versions,
formats and the formatting of texts are missing, as are the rarest functions of those for lists, texts, quantities
and optional values; of CEL's own, unsigned numbers, bytes, and reckoning with times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Any

import re2

from kubesim.api.quantity import QuantityError, parse
from kubesim.times import parse_go_duration

NAMESPACES = ("sets",)
"""Names without a value on which functions are called; in the table, those functions begin with them."""
UNCONVERTIBLE = "type conversion error from 'string' to '{}'"
TRUTHS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_QUIET = re2.Options()
_QUIET.log_errors = False


class CelError(ValueError):
    """A text that is no expression, or an expression that has no value; the message is CEL's."""


class CostError(CelError):
    """An expression takes too long; no other part of it makes up for that."""


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


NO_OVERLOAD = "no such overload"
TOO_DEAR = "operation cancelled: actual cost limit exceeded"
LARGEST_VALUE = 10_000_000
"""The most characters or items that a value may have."""
LARGEST, SMALLEST = 2**63 - 1, -(2**63)
TIME = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
NAMES: tuple[tuple[type, str], ...] = (
    (bool, "bool"), (int, "int"), (float, "double"), (str, "string"),
    (list, "list"), (Mapping, "map"), (TypeValue, "type"), (Optional, "optional_type"),
    (datetime, "google.protobuf.Timestamp"), (timedelta, "google.protobuf.Duration"),
)  # fmt: skip
SIZED = (str, list, Mapping)
KEYS = (bool, int, float, str)
"""The types of the keys of maps."""
CONSTANTS = {
    name: TypeValue(name)
    for name in ("bool", "double", "dyn", "int", "list", "map", "null_type", "string", "type",
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
    same = type_of(one) == type_of(other) and isinstance(one, bool | str | datetime | timedelta)
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


@lru_cache(1024)
def pattern(text: str) -> Any:
    """Return a regular expression of Go's syntax. Raises CelError."""
    try:
        return re2.compile(text, _QUIET)
    except re2.error as error:
        raise CelError(f"error parsing regexp: {error.args[0].decode('utf-8', 'replace')}: `{text}`") from error


def _size(value: Any) -> int:
    if not isinstance(value, SIZED):
        raise CelError(NO_OVERLOAD)
    return len(value)


def _in_text(test: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    def function(text: Any, part: Any) -> bool:
        if not isinstance(text, str) or not isinstance(part, str):
            raise CelError(NO_OVERLOAD)
        return test(text, part)

    return function


def _int(value: Any) -> int:
    match value:
        case str():
            if not re.fullmatch(r"[+-]?[0-9]{1,40}", value) or not SMALLEST <= int(value) <= LARGEST:
                raise CelError(UNCONVERTIBLE.format("int"))
            return int(value)
        case float() if value != value or not SMALLEST <= value < 2.0**63:
            raise CelError("integer overflow")
        case datetime():
            return int(value.timestamp())
        case timedelta():
            found = round(value.total_seconds() * 1e9)
        case _ if is_number(value):
            found = int(value)
        case _:
            raise CelError(NO_OVERLOAD)
    if not SMALLEST <= found <= LARGEST:
        raise CelError("integer overflow")
    return found


def _double(value: Any) -> float:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError as error:
            raise CelError(UNCONVERTIBLE.format("double")) from error
    if not is_number(value):
        raise CelError(NO_OVERLOAD)
    return float(value)


def _bool(value: Any) -> bool:
    if isinstance(value, str) and value not in TRUTHS:
        raise CelError(UNCONVERTIBLE.format("bool"))
    found = TRUTHS[value] if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise CelError(NO_OVERLOAD)
    return found


def _timestamp(value: Any) -> datetime:
    if isinstance(value, str):
        return timestamp(value)
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromtimestamp(_int(value), UTC)
    except (OSError, OverflowError, ValueError) as error:
        raise CelError("timestamp overflow") from error


def _duration(value: Any) -> timedelta:
    return duration(value) if isinstance(value, str) else value


def _type(value: Any) -> TypeValue:
    return CONSTANTS.get(type_of(value)) or TypeValue(type_of(value))


def _value(optional: Optional) -> Any:
    if not optional.has:
        raise CelError("optional.none() dereference")
    return optional.held


def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if start > last and 0 <= start <= len(text):
        raise CelError(f"invalid substring range. start: {start}, end: {last}")
    for at in (start, last):
        _check_index(at, len(text))
    return text[start:last]


def _check_index(at: int, most: int) -> None:
    if not 0 <= at <= most:
        raise CelError(f"index out of range: {at}")


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    check_size(len(text) + len(new) * (text.count(old) if most < 0 else min(most, text.count(old))))
    return text.replace(old, new, most)


def _join(items: list[str], by: str = "") -> str:
    check_size(sum(map(len, items)) + len(by) * len(items))
    return by.join(items)


def _find(text: str, wanted: str) -> str:
    found = pattern(wanted).search(text)
    return str(found[0]) if found else ""


def _sorted(items: list[Any]) -> bool:
    return all(one <= other for one, other in zip(items, items[1:], strict=False))


def _is_in(item: Any, whole: list[Any]) -> bool:
    return any(equal(item, other) for other in whole)


def _contains(whole: list[Any], part: list[Any]) -> bool:
    return all(_is_in(item, whole) for item in part)


def _extreme(name: str, best: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def function(items: list[Any]) -> Any:
        if not items:
            raise CelError(f"{name} called on empty list")
        return best(items)

    return function


def _works(call: Callable[..., Any]) -> Callable[..., bool]:
    """Return what tells whether a text is one that ``call`` reads."""

    def works(text: Any, *how: Any) -> bool:
        try:
            call(text, *how)
        except (ValueError, QuantityError):
            return False
        return True

    return works


def _number(text: Any) -> float:
    """Return a quantity as a number, which compares as the quantity does."""
    if not isinstance(text, str):
        return float(text)
    value = Fraction(parse(text))
    return int(value) if value.denominator == 1 else float(value)


def _asks(field: str) -> Callable[..., dict[str, Any]]:
    """Return what adds one thing to a question to the authorizer."""

    def asks(question: Any, *values: str) -> dict[str, Any]:
        found = ":".join(values) if field == "account" else values[0]
        return {**question, field: found}

    return asks


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "size": _size, "contains": _in_text(lambda text, part: part in text), "startsWith": _in_text(str.startswith),
    "endsWith": _in_text(str.endswith), "matches": _in_text(lambda text, part: bool(pattern(part).search(text))),
    "int": _int, "double": _double, "bool": _bool, "string": shown,
    "timestamp": _timestamp, "duration": _duration, "type": _type, "dyn": lambda value: value,
    "hasValue": lambda optional: optional.has, "value": _value,
    "lowerAscii": str.lower, "upperAscii": str.upper, "trim": str.strip, "substring": _substring,
    "split": lambda text, by, *most: text.split(by, *(n - 1 for n in most)) if by else list(text),
    "replace": _replace,
    "find": _find,
    "join": _join,
    "isSorted": _sorted,
    "sum": lambda items: sum(items[1:], items[0]) if items else 0,
    "min": _extreme("min", min), "max": _extreme("max", max),
    "sets.contains": _contains,
    "sets.intersects": lambda one, other: any(_is_in(item, one) for item in other),
    "sets.equivalent": lambda one, other: _contains(one, other) and _contains(other, one),
    "quantity": _number, "isQuantity": _works(parse),
    "add": lambda one, other: one + other, "sub": lambda one, other: one - other,
    "isGreaterThan": lambda one, other: one > other, "isLessThan": lambda one, other: one < other,
    "compareTo": lambda one, other: (one > other) - (one < other),
    **{name: _asks(name) for name in ("group", "resource", "subresource", "namespace", "name", "path",
                                      "fieldSelector", "labelSelector")},
    "serviceAccount": _asks("account"),
    "allowed": lambda decision: decision["allowed"], "reason": lambda decision: decision["reason"],
    "errored": lambda decision: False, "error": lambda decision: "",
}  # fmt: skip
