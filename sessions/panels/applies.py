"""The panel of Terraform: each apply with its summary, and the number of the newest state."""

from __future__ import annotations

from sessions import events
from sessions.models import SessionEvent
from sessions.panels.subject import Context, Subject
from sessions.selectors import toolbox_for

MOST_APPLIES = 30


def applies(subject: Subject) -> Context:
    """Return the applies of the session, the newest first; nothing in a session without Terraform."""
    box = toolbox_for(subject.session)
    if box is None or box.terraform is None:
        return {"has_code": False, "applies": []}
    found = SessionEvent.objects.filter(session=subject.session, kind=events.APPLIED).order_by("-seq")
    return {"has_code": True, "applies": list(found[:MOST_APPLIES])}
