"""Times as kubectl prints them: how long ago, in at most two units."""

from __future__ import annotations

from datetime import UTC, datetime

MINUTE, HOUR, DAY = 60, 3600, 86400


def parse_time(text: str | None) -> datetime | None:
    """Return an RFC 3339 time of the API, or None where there is none (or no such time)."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def human(seconds: float) -> str:
    """Return a duration as k8s.io/apimachinery's HumanDuration words it: 2m, 95s, 3h5m, 8d, 2y10d."""
    if seconds < -1:
        return "<invalid>"
    whole = max(int(seconds), 0)
    minutes, hours, days = whole // MINUTE, whole // HOUR, whole // DAY
    if whole < 2 * MINUTE:
        return f"{whole}s"
    if minutes < 10:
        return _pair(minutes, "m", whole % MINUTE, "s")
    if minutes < 3 * 60:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 8 * 24:
        return _pair(days, "d", hours % 24, "h")
    return _years(days)


def _years(days: int) -> str:
    """Return durations from eight days up."""
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _pair(big: int, unit: str, small: int, small_unit: str) -> str:
    """Return ``5m`` or ``5m30s``."""
    return f"{big}{unit}{small}{small_unit}" if small else f"{big}{unit}"


def since(text: str | None, now: datetime) -> str:
    """Return the age of a time stamp; ``<unknown>`` without one."""
    moment = parse_time(text)
    return human((now - moment).total_seconds()) if moment else "<unknown>"


def between(start: str | None, end: str | None) -> str:
    """Return the duration from one time stamp to another; empty when one is missing."""
    first, last = parse_time(start), parse_time(end)
    return human((last - first).total_seconds()) if first and last else ""
