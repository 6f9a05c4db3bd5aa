"""Times as the Kubernetes API writes them."""

from __future__ import annotations

from datetime import UTC, datetime


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


def go_duration(seconds: float) -> str:
    """Return whole seconds as Go prints a duration: 10s, 1m20s, 5m0s, 1h0m0s."""
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    if hours:
        return f"{hours}h{minutes}m{whole % 60}s"
    return f"{minutes}m{whole % 60}s" if minutes else f"{whole}s"


def go_milliseconds(seconds: float) -> str:
    """Return a duration rounded to milliseconds as Go prints it: 312ms, 1.234s."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms"
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"
