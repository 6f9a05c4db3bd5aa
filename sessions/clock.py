"""Session time: the sum of the intervals in which the clock ran, never "now minus start".

Extensions and credits lengthen the budget; they do not rewrite the time that has passed, because events and notes
are bound to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from faults import clock as installation
from sessions.models import ClockEntry, InterviewSession

GRACE = timedelta(minutes=30)
LONGEST_FAULT = timedelta(hours=8)

_RUNS = (ClockEntry.Kind.START, ClockEntry.Kind.RESUME)
_STOPS = (ClockEntry.Kind.PAUSE, ClockEntry.Kind.END)
_LENGTHENS = (ClockEntry.Kind.EXTEND, ClockEntry.Kind.CREDIT)
_source: Callable[[], datetime] = installation.now


class SteppingClock:
    """A time source that stands still until told otherwise."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at

    def advance(self, seconds: float) -> datetime:
        """Move forward and return the new time."""
        self.at += timedelta(seconds=seconds)
        return self.at


def now() -> datetime:
    """Return the current time, aware, from the time source in use."""
    return _source()


@contextmanager
def use(source: Callable[[], datetime]) -> Iterator[None]:
    """Take the time from ``source`` inside the block."""
    global _source
    before, _source = _source, source
    try:
        yield
    finally:
        _source = before


def elapsed_ms(session: InterviewSession, at: datetime | None = None) -> int:
    """Return the session time in milliseconds at ``at`` (default: now)."""
    return _elapsed_ms(session.clock_entries.all(), at or now())


def budget_s(session: InterviewSession) -> int:
    """Return the seconds this session may last: planned minutes, extensions and credits."""
    return _budget_s(session, session.clock_entries.all())


def remaining_s(session: InterviewSession, at: datetime | None = None) -> int:
    """Return the seconds left, negative once the budget is overrun."""
    return budget_s(session) - elapsed_ms(session, at) // 1000


def is_running(session: InterviewSession) -> bool:
    """Whether the clock runs now."""
    marks = [entry.kind for entry in session.clock_entries.all() if entry.kind in (*_RUNS, *_STOPS)]
    return bool(marks) and marks[-1] in _RUNS


def started_at(session: InterviewSession) -> datetime | None:
    """Return when the clock first started."""
    return _started_at(session.clock_entries.all())


def planned_end(session: InterviewSession, at: datetime | None = None) -> datetime:
    """Return when the interview ends if nothing else happens; while it is paused this moves with the time."""
    at = at or now()
    if session.ended_at is not None:
        return session.ended_at
    entries = list(session.clock_entries.all())
    if _started_at(entries) is None:
        at = max(at, session.scheduled_at or at)
    return at + timedelta(seconds=_budget_s(session, entries), milliseconds=-_elapsed_ms(entries, at))


def fault_deadline(session: InterviewSession, at: datetime | None = None) -> datetime:
    """Return when the session's faults must be gone: 30 minutes after the planned end, 8 hours after preparing began.

    A paused interview has no planned end, so that only the 8 hours bound it.
    """
    at = at or now()
    latest = (session.prepared_at or at) + LONGEST_FAULT
    if session.state == InterviewSession.State.PAUSED:
        return latest
    return min(planned_end(session, at) + GRACE, latest)


def _elapsed_ms(entries: Iterable[ClockEntry], at: datetime) -> int:
    return round(_running_time(entries, at).total_seconds() * 1000)


def _budget_s(session: InterviewSession, entries: Iterable[ClockEntry]) -> int:
    return session.minutes * 60 + sum(entry.seconds for entry in entries if entry.kind in _LENGTHENS)


def _started_at(entries: Iterable[ClockEntry]) -> datetime | None:
    return next((entry.at for entry in entries if entry.kind in _RUNS), None)


def _running_time(entries: Iterable[ClockEntry], at: datetime) -> timedelta:
    total, since = timedelta(), None
    for entry in entries:
        if entry.at > at:  # asked about a moment before this entry
            break
        if entry.kind in _RUNS:
            since = since or entry.at
        elif entry.kind in _STOPS and since is not None:
            total += _span(since, entry.at)
            since = None
    return total if since is None else total + _span(since, at)


def _span(start: datetime, end: datetime) -> timedelta:
    return max(end - start, timedelta())  # a wall clock that was set back must not make time run backwards
