"""New starts of a session's cluster, told on its time line: after a hang, and perhaps without what it hung over."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import F

from faults.practice import Restarts
from sessions import events
from sessions.models import InterviewSession, SessionEvent
from sessions.services.rows import locked


@transaction.atomic
def note_restarts(*, session_id: int, restarts: Restarts) -> bool:
    """Enter what is new since the last entry; False where nothing is."""
    session = locked(session_id)
    known = SessionEvent.objects.filter(session=session, kind=events.RESTARTED).order_by("-seq").first()
    payload: dict[str, Any] = known.payload if known else {"count": 0, "removed": []}
    removed = [place for place in restarts.removed if place not in payload["removed"]]
    if restarts.count <= payload["count"] and not removed:
        return False
    reason = f"without {', '.join(removed)}, over which it hung" if removed else ""
    told = {"count": restarts.count, "removed": list(restarts.removed), "reason": reason}
    InterviewSession.objects.filter(pk=session.pk).update(restart_count=F("restart_count") + 1)
    events.append(session, events.RESTARTED, payload=told)
    return True
