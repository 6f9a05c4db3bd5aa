"""The functions that belong to the language CEL itself: sizes, texts, conversions and times."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import re2

from kubesim.cel.values import (
    CONSTANTS,
    LARGEST,
    LARGEST_UINT,
    NO_OVERLOAD,
    SIZED,
    SMALLEST,
    CelError,
    Optional,
    TypeValue,
    Uint,
    duration,
    equal,
    is_number,
    shown,
    timestamp,
    type_of,
)

ZONE = re.compile(r"([+-]?)(\d\d):(\d\d)")
UNCONVERTIBLE = "type conversion error from 'string' to '{}'"
TRUTHS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_QUIET = re2.Options()
_QUIET.log_errors = False


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
            found = _parsed(value, "int", SMALLEST, LARGEST)
        case float() if value != value or not SMALLEST <= value < 2.0**63:
            raise CelError("integer overflow")
        case datetime():
            found = int(value.timestamp())
        case timedelta():
            found = round(value.total_seconds() * 1e9)
        case _ if is_number(value):
            found = int(value)
        case _:
            raise CelError(NO_OVERLOAD)
    return _bounded(found, SMALLEST, LARGEST, "integer overflow")


def _parsed(text: str, kind: str, least: int, most: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,40}", text) or not least <= int(text) <= most:
        raise CelError(UNCONVERTIBLE.format(kind))
    return int(text)


def _bounded(found: int, least: int, most: int, why: str) -> int:
    if not least <= found <= most:
        raise CelError(why)
    return found


def _uint(value: Any) -> Uint:
    found = _parsed(value, "uint", 0, LARGEST_UINT) if isinstance(value, str) else value
    if not is_number(found) or found != found:
        raise CelError(NO_OVERLOAD)
    return Uint(_bounded(int(found), 0, LARGEST_UINT, "unsigned integer overflow"))


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


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str.encode(value)


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


def _zone(name: str) -> timezone | ZoneInfo:
    if found := ZONE.fullmatch(name):
        minutes = int(found[2]) * 60 + int(found[3])
        return timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise CelError(f"unknown time zone {name}") from error


def _of_time(part: Callable[[datetime], int], whole: Callable[[float], float] | None = None) -> Callable[..., int]:
    """Return what asks a time, or the length of one, for a part of it."""

    def function(value: Any, zone: str = "UTC") -> int:
        if isinstance(value, timedelta) and whole is not None:
            return int(whole(value.total_seconds()))
        if not isinstance(value, datetime):
            raise CelError(NO_OVERLOAD)
        return part(value.astimezone(_zone(zone)))

    return function


def _value(optional: Optional) -> Any:
    if not optional.has:
        raise CelError("optional.none() dereference")
    return optional.held


def _of_non_zero(value: Any) -> Optional:
    zero = value is None or value is False or (isinstance(value, SIZED) and not value) or equal(value, 0)
    return Optional() if zero else Optional(True, value)


STANDARD: dict[str, Callable[..., Any]] = {
    "size": _size, "contains": _in_text(lambda text, part: part in text), "startsWith": _in_text(str.startswith),
    "endsWith": _in_text(str.endswith), "matches": _in_text(lambda text, part: bool(pattern(part).search(text))),
    "int": _int, "uint": _uint, "double": _double, "bool": _bool, "bytes": _bytes, "string": shown,
    "timestamp": _timestamp, "duration": _duration, "type": _type, "dyn": lambda value: value,
    "getFullYear": _of_time(lambda time: time.year), "getMonth": _of_time(lambda time: time.month - 1),
    "getDate": _of_time(lambda time: time.day), "getDayOfMonth": _of_time(lambda time: time.day - 1),
    "getDayOfWeek": _of_time(lambda time: time.isoweekday() % 7),
    "getDayOfYear": _of_time(lambda time: time.timetuple().tm_yday - 1),
    "getHours": _of_time(lambda time: time.hour, lambda seconds: seconds / 3600),
    "getMinutes": _of_time(lambda time: time.minute, lambda seconds: seconds / 60),
    "getSeconds": _of_time(lambda time: time.second, lambda seconds: seconds),
    "getMilliseconds": _of_time(lambda time: time.microsecond // 1000, lambda seconds: seconds * 1000),
    "optional.of": lambda value: Optional(True, value), "optional.none": Optional,
    "optional.ofNonZeroValue": _of_non_zero, "hasValue": lambda optional: optional.has, "value": _value,
}  # fmt: skip
