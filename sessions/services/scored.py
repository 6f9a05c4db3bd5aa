"""The step from ended to scored, taken at whichever comes last: the end, or the last submission."""

from __future__ import annotations

from django.contrib.auth.models import User

from sessions import events
from sessions.models import InterviewSession
from sessions.services.rows import State, move


def score_when_submitted(session: InterviewSession, actor: User | None) -> None:
    """Move an ended session to scored once every interviewer has submitted, be it before a reopening."""
    assessments = session.assessments
    if session.state != State.ENDED or not assessments.exists():
        return
    if not assessments.filter(first_submitted_at=None).exists():
        move(session, [State.ENDED], State.SCORED)
        events.append(session, "session.scored", actor=actor)
