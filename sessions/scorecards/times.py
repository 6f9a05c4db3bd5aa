"""Times of a scorecard: RFC 3339 in UTC, and session time in milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sessions import clock
from sessions.models import InterviewSession


def moment(session: InterviewSession, at: datetime | None) -> dict[str, Any] | None:
    """Return a time both ways; ``session_ms`` is None before the clock's start."""
    if at is None:
        return None
    started = clock.started_at(session)
    before = started is None or at < started
    return {"at": timestamp(at), "session_ms": None if before else clock.elapsed_ms(session, at)}


def timestamp(at: datetime | None) -> str | None:
    """Return a time as RFC 3339 in UTC."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z") if at else None
