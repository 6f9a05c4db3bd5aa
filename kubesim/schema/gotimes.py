"""Times as Go's ``time.Parse`` reads them for Kubernetes, to the second or microsecond, and its complaints."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

USUAL = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{6})?Z")
SECONDS, MICROSECONDS = "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05.000000Z07:00"
PARTS = (
    *(("year", "2006", r"\d{4}"), ("", "-", "-"), ("month", "01", r"\d\d"), ("", "-", "-"), ("day", "02", r"\d\d")),
    *(("", "T", "T"), ("hour", "15", r"\d\d?"), ("", ":", ":"), ("minute", "04", r"\d\d"), ("", ":", ":")),
    ("second", "05", r"\d\d"),
)
FRACTION, ANY_FRACTION = ("fraction", ".000000", r"[.,]\d{6}"), ("fraction", "", r"([.,]\d+)?")
ZONE = ("zone", "Z07:00", r"Z|[+-]\d\d:\d\d")
BOUNDS = {"month": (1, 12), "hour": (0, 23), "minute": (0, 59), "second": (0, 59)}


def read(text: str, *, micro: bool = False) -> str:
    """Return a time as Kubernetes writes it, in UTC. Raises ValueError with what Go says."""
    if (found := USUAL.fullmatch(text)) and (found[4] is not None) is micro:
        return text
    parts = _parsed(text, MICROSECONDS if micro else SECONDS, micro=micro)
    try:
        return _written(parts, micro=micro)
    except (ValueError, OverflowError) as error:
        raise ValueError(f'parsing time "{text}": day out of range') from error


def _parsed(text: str, layout: str, *, micro: bool) -> dict[str, str]:
    """Return the parts of a time. Raises ValueError."""
    rest, found = text, {}
    for name, element, pattern in (*PARTS, FRACTION if micro else ANY_FRACTION, ZONE):
        part = re.match(pattern, rest)
        if part is None:
            raise ValueError(f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{element}"')
        found[name or "between"], rest = part[0], rest[part.end() :]
        low, high = BOUNDS.get(name, (0, 0))
        if high and not low <= int(part[0]) <= high:
            raise ValueError(f'parsing time "{text}": {name} out of range')
    if found["zone"][1:3] > "24" or found["zone"][4:6] > "60":
        wrong = "hour" if found["zone"][1:3] > "24" else "minute"
        raise ValueError(f'parsing time "{text}": time zone offset {wrong} out of range')
    if rest:
        raise ValueError(f'parsing time "{text}": extra text: "{rest}"')
    return found


def _written(parts: dict[str, str], *, micro: bool) -> str:
    year, month, day, hour, minute, second = (
        int(parts[name]) for name in ("year", "month", "day", "hour", "minute", "second")
    )
    micros = int((parts["fraction"][1:] + "000000")[:6])
    moment = datetime(year, month, day, hour, minute, second, micros, tzinfo=UTC) - _offset(parts["zone"])
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{micros:06}Z" if micro else "Z")


def _offset(zone: str) -> timedelta:
    """Return how far a zone is ahead of UTC."""
    if zone == "Z":
        return timedelta()
    sign = -1 if zone[0] == "-" else 1
    return sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
