"""The panel above a session's page: what has stopped for everybody, since when, and what goes on."""

from __future__ import annotations

from faults import services as fault_services
from faults.models import Panic
from sessions.models import InterviewSession
from sessions.panels.stages import troubled_parts
from sessions.panels.subject import Context, Subject

_STATES = InterviewSession.State


def notices(subject: Subject) -> Context:
    """Return the panic stop that covers the session, and since when its cluster has refused our credentials."""
    session = subject.session
    under_way = session.state in (_STATES.LIVE, _STATES.PAUSED)
    ended = session.state in (_STATES.ENDED, _STATES.SCORED)
    return {
        "panic": None if session.released_at else _panic(session),
        "refused_at": None
        if session.released_at
        else fault_services.credentials_refused_at(session.cluster, subject.now),
        "under_way": under_way,
        "stopped_parts": troubled_parts(session) if under_way else [],
        "access_stays": ended and session.access_revoked_at is None,
    }


def _panic(session: InterviewSession) -> Panic | None:
    """Return the stop of all clusters before that of the session's own."""
    panics = fault_services.panics_over(session.cluster_id)
    return min(panics, key=lambda panic: panic.cluster_id is not None, default=None)
