"""Times as the Kubernetes API writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([^0-9.]*)")
"""A part of a duration as Go reads it: a number and its unit."""
MAX_GO_DURATION_S = 9.2e9
"""292 years."""


def stamp(at: datetime) -> str:
    """Return a meta/v1 Time: RFC 3339 in UTC with whole seconds."""
    return at.astimezone(UTC).isoformat(timespec="seconds")[:19] + "Z"


def micro(at: datetime) -> str:
    """Return a meta/v1 MicroTime: RFC 3339 in UTC with six decimals."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "Z"


def nano(at: datetime) -> str:
    """Return RFC 3339 with nine decimals, as container logs carry it."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")[:26] + "000Z"


def parse(text: str) -> datetime:
    """Return the moment of a Time or MicroTime."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def parse_go_duration(text: str) -> float:
    """Return the seconds of a duration such as 1m30s. Raises ValueError with the words of Go's ParseDuration."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0.0
    parts: list[float] = []
    while rest or not parts:
        part = _PART.match(rest)
        if part is None:
            raise ValueError(f'time: invalid duration "{text}"')
        if not part[2]:
            raise ValueError(f'time: missing unit in duration "{text}"')
        if part[2] not in _UNITS:
            raise ValueError(f'time: unknown unit "{part[2]}" in duration "{text}"')
        parts.append(float(part[1]) * _UNITS[part[2]])
        rest = rest[part.end() :]
    if sum(parts) > MAX_GO_DURATION_S:
        raise ValueError(f'time: invalid duration "{text}"')
    return -sum(parts) if text.startswith("-") else sum(parts)


def go_duration(seconds: float) -> str:
    """Return whole seconds as Go prints a duration: 10s, 1m20s, 5m0s, 1h0m0s."""
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours}h{minutes}m{whole % 60}s"
    return f"{minutes}m{whole % 60}s" if minutes else f"{whole}s"


def go_milliseconds(seconds: float) -> str:
    """Return a duration rounded to milliseconds as Go prints it: 312ms, 1.234s, 2m0.5s."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds * 1000), 60_000)
    hours, minutes = divmod(minutes, 60)
    whole = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return whole + f"{rest / 1000:.3f}".rstrip("0").rstrip(".") + "s"
