"""The panel of Terraform's plans: what an apply of the toolbox's code would do now, and what has drifted."""

from __future__ import annotations

from sessions import events
from sessions.models import SessionEvent
from sessions.panels.subject import Context, Subject
from sessions.selectors import toolbox_for


def plans_of_code(subject: Subject) -> Context:
    """Return the newest plan of each root, by name; nothing in a session without Terraform."""
    box = toolbox_for(subject.session)
    if box is None or box.terraform is None:
        return {"has_code": False, "plans": []}
    found = SessionEvent.objects.filter(session=subject.session, kind=events.PLANNED)
    roots = sorted(set(found.values_list("payload__root", flat=True)))
    return {"has_code": True, "plans": [found.filter(payload__root=root).latest("seq") for root in roots]}
