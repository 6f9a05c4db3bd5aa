"""The newest plan of each root of Terraform code, kept on the time line: what an apply in the toolbox would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from sessions import events
from sessions.models import SessionEvent
from sessions.services.rows import State, locked

_KEPT = ("serial", "known", "text", "changes", "drift")


@transaction.atomic
def note_plan(*, session_id: int, root: str, plan: Mapping[str, Any]) -> bool:
    """Enter a plan (``faults.terraform_plans``) that says something new; False where it does not, or nobody works.

    Before a first state there is nothing to tell of.
    """
    session = locked(session_id)
    if session.state not in (State.LIVE, State.PAUSED):
        return False
    payload = {"root": root} | {key: plan[key] for key in _KEPT}
    known = SessionEvent.objects.filter(session=session, kind=events.PLANNED, payload__root=root)
    newest = known.order_by("-seq").first()
    if newest.payload == payload if newest else not plan["serial"]:
        return False
    events.append(session, events.PLANNED, payload=payload)
    return True
