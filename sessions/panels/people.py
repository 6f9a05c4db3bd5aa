"""Panels about people: the candidate's way in, and who is watching right now."""

from __future__ import annotations

from django.contrib.auth.models import User

from sessions import presence
from sessions.models import InterviewSession
from sessions.panels.subject import Context, Subject, assessments_of, clock_of, restart_of, started_at_of

_STATES = InterviewSession.State
_JOINABLE = (_STATES.DRAFT, _STATES.PREPARING, _STATES.READY, _STATES.LIVE, _STATES.PAUSED)


def link(subject: Subject) -> Context:
    """Return how far the candidate has come: not invited, invited, in the waiting room, on the page, connected."""
    session = subject.session
    found = presence.of(str(session.uuid), subject.now)
    return {
        "invited": bool(session.join_token_hash),
        "page_open": found.candidate if found else None,
        "waits": session.state not in (_STATES.LIVE, _STATES.PAUSED),
        "may_join": session.state in _JOINABLE,
        "restarted": None if session.is_quiet(subject.now) else restart_of(session),
    }


def watchers(subject: Subject) -> Context:
    """Return who has the interviewers' page open now, and everybody who may open it.

    ``watching`` is None where nobody can tell.
    """
    session = subject.session
    found = presence.of(str(session.uuid), subject.now)
    members = sorted(session.interviewers.all(), key=lambda user: user.pk)
    watching = _named(members, found.users) if found else None
    quiet_until = session.quiet_until if session.is_quiet(subject.now) else None
    return {"watching": watching, "members": [_name(user) for user in members], "quiet_until": quiet_until}


def outcome(subject: Subject) -> Context:
    """Return when the interview began and ended, and who has submitted; never what."""
    times = clock_of(subject.session, subject.now)
    return {
        "started": started_at_of(subject.session),
        "elapsed_ms": times["elapsed_ms"],
        "submissions": assessments_of(subject.session),
    }


def _named(members: list[User], present: frozenset[int]) -> list[str]:
    """Return the names of those present; an admin who looks in is named, too."""
    known = {user.pk: user for user in members}
    others = User.objects.filter(pk__in=present - known.keys()) if present - known.keys() else ()
    return [_name(user) for user in (*(known[pk] for pk in sorted(present & known.keys())), *others)]


def _name(user: User) -> str:
    return user.get_full_name() or user.get_username()
