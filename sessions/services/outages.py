"""The ledger of outages: when the environment did not answer, why, and the time that was given back for it."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F

from sessions import clock, events
from sessions.errors import SessionError
from sessions.models import InterviewSession, Outage
from sessions.services.ledger import close_outage
from sessions.services.lifecycle import MOST_EXTENSION, OPEN, credit
from sessions.services.rows import State, locked

MIN_OUTAGE = timedelta(seconds=3)  # what is shorter is a hiccup that nobody loses time by
MAX_CREDIT_S = MOST_EXTENSION * 60
MAX_REASON = 300


@transaction.atomic
def begin_outage(*, session_id: int, at: datetime, reason: str) -> bool:
    """Open an outage that began at ``at``; False where one is open, or the interview does not run."""
    session = locked(session_id)
    if session.state not in OPEN or session.outages.filter(ended_at__isnull=True).exists():
        return False
    began = max(at, _last_end(session), clock.started_at(session) or at)
    Outage.objects.create(session=session, began_at=began, reason=reason[:MAX_REASON])
    InterviewSession.objects.filter(pk=session_id).update(outage_count=F("outage_count") + 1)
    events.append(session, "outage.began", payload={"since": began.isoformat(), "reason": reason[:MAX_REASON]})
    return True


@transaction.atomic
def end_outage(*, session_id: int, at: datetime) -> int:
    """Close the open outage and credit the session time that it took, once; return the seconds."""
    session = locked(session_id)
    outage = session.outages.filter(ended_at__isnull=True).first()
    if outage is None:
        return 0
    ended_at = max(min(at, session.ended_at or at), outage.began_at)
    close_outage(session, outage, ended_at, _credit(session, outage, ended_at))
    return outage.credited_s


def note_absence(*, began_at: datetime, ended_at: datetime, reason: str) -> int:
    """Enter an outage that struck every running interview while nobody could write it down; return how many."""
    running = InterviewSession.objects.filter(state__in=(State.LIVE, State.PAUSED), cluster__isnull=False)
    return sum(_note_one(pk, began_at, ended_at, reason) for pk in running.values_list("pk", flat=True))


@transaction.atomic
def _note_one(session_id: int, began_at: datetime, ended_at: datetime, reason: str) -> bool:
    """An outage that was open before goes on through the absence, and ends when the environment answers."""
    if not begin_outage(session_id=session_id, at=began_at, reason=reason):
        return False
    end_outage(session_id=session_id, at=ended_at)
    return True


def _last_end(session: InterviewSession) -> datetime:
    """Return when the newest outage ended: no moment is credited twice."""
    ended = session.outages.order_by("-ended_at").values_list("ended_at", flat=True).first()
    return ended or session.created_at


def _credit(session: InterviewSession, outage: Outage, ended_at: datetime) -> int:
    """Give back the session time between; a pause inside of it has cost nobody anything."""
    lost_ms = clock.elapsed_ms(session, ended_at) - clock.elapsed_ms(session, outage.began_at)
    seconds = min(-(-lost_ms // 1000), MAX_CREDIT_S)
    if session.state not in OPEN or seconds < MIN_OUTAGE.total_seconds():
        return 0
    span = f"{outage.began_at:%H:%M:%S} to {ended_at:%H:%M:%S} UTC"
    try:
        credit(session=session, seconds=seconds, reason=f"Outage, {span}: {outage.reason}"[:MAX_REASON])
    except SessionError:  # the faults' latest deadline leaves no room for it
        return 0
    return seconds
