"""Quiet time: for some minutes the candidate works with nobody looking. The clock and the checks go on.

It ends by itself (``housekeep``), when an interviewer ends it, and when the interview pauses or ends.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.db import transaction

from sessions import clock, events
from sessions.errors import SessionError
from sessions.models import InterviewSession
from sessions.services.rows import State, locked, require

MINUTES = 5
MOST_MINUTES = 30


@transaction.atomic
def begin_quiet(*, session: InterviewSession, actor: User | None, minutes: int = MINUTES) -> InterviewSession:
    """Hide the cluster from the interviewers for ``minutes``; while it is quiet, asking again changes nothing."""
    session = locked(session)
    require(session, [State.LIVE], "have quiet time")
    if not 1 <= minutes <= MOST_MINUTES:
        raise SessionError(f"Quiet time lasts 1 to {MOST_MINUTES} minutes.", "minutes")
    now = clock.now()
    if session.is_quiet(now):
        return session
    session.quiet_until = now + timedelta(minutes=minutes)
    session.save(update_fields=["quiet_until"])
    payload = {"minutes": minutes, "until": session.quiet_until.isoformat()}
    events.append(session, "session.quiet_began", actor=actor, payload=payload, at=now)
    return session


@transaction.atomic
def end_quiet(*, session: InterviewSession, actor: User | None) -> InterviewSession:
    """Let the interviewers see the cluster again; where it is not quiet, nothing changes."""
    session = locked(session)
    stop_quiet(session, actor)
    return session


def stop_quiet(session: InterviewSession, actor: User | None) -> None:
    """End quiet time as part of another change; the session is locked."""
    if session.quiet_until is None:
        return
    session.quiet_until = None
    session.save(update_fields=["quiet_until"])
    events.append(session, "session.quiet_ended", actor=actor)


def end_quiet_that_is_over(now: datetime) -> int:
    """End every quiet time that has run out; return how many."""
    over = InterviewSession.objects.filter(quiet_until__lte=now)
    return sum(_end_if_still_over(session, now) for session in over)


@transaction.atomic
def _end_if_still_over(session: InterviewSession, now: datetime) -> bool:
    session = locked(session)
    if session.quiet_until is None or session.is_quiet(now):
        return False
    stop_quiet(session, None)
    return True
