"""Applies of Terraform, told on the time line: a state has a new number, and what has changed in it.

Wherever Terraform ran, in the toolbox or on the candidate's machine, the state is in the cluster.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction

from faults.models import Step
from faults.plain_text import plain_line
from faults.terraform_state import TerraformState, differs
from sessions import events
from sessions.models import InterviewSession, SessionEvent
from sessions.services.rows import State, locked

BY_A_PART = ", as a part began"
MAX_RESOURCES = 20
MAX_ADDRESS = 200


@transaction.atomic
def note_apply(*, session_id: int, root: str, before: TerraformState | None, after: TerraformState) -> bool:
    """Enter a state that is newer than the last entry of its root; False where it is not, or nobody is at work.

    ``before`` is the state as it was last seen. Who begins to look has none: then an entry is made only where an
    earlier one is older, and says nothing of what has changed.
    """
    session = locked(session_id)
    known = SessionEvent.objects.filter(session=session, kind=events.APPLIED, payload__root=root)
    newest = known.order_by("-seq").first()
    is_known = not _is_newer(after, newest.payload) if newest else before is None
    if session.state not in (State.LIVE, State.PAUSED) or is_known:
        return False
    told, ours = _told(root, before, after), _is_ours(session, root, after)
    if ours:
        told["text"] += BY_A_PART
    events.append(session, events.APPLIED, actor=None if ours else events.CANDIDATE, payload=told)
    return True


def _is_ours(session: InterviewSession, root: str, state: TerraformState) -> bool:
    """Return whether a part of the interview has made this version of the state as it began."""
    runs = session.scenarios.filter(run__isnull=False).values("run")
    version = {f"undo__made__{root}__serial": state.serial, f"undo__made__{root}__lineage": state.lineage}
    return Step.objects.filter(run__in=runs, **version).exists()


def _is_newer(state: TerraformState, entry: dict[str, Any]) -> bool:
    lineage = plain_line(state.lineage)
    return bool(state.serial > entry["serial"] or lineage != entry.get("lineage", lineage))


def _told(root: str, before: TerraformState | None, after: TerraformState) -> dict[str, Any]:
    payload: dict[str, Any] = {"root": root, "serial": after.serial, "lineage": plain_line(after.lineage)}
    if before is None:
        return payload | {"text": f"{root}, state {after.serial}"}
    old = {row["address"]: row["attributes"] for row in before.resources}
    new = {row["address"]: row["attributes"] for row in after.resources}
    added, destroyed = sorted(new.keys() - old.keys()), sorted(old.keys() - new.keys())
    changed = sorted(address for address in new.keys() & old.keys() if differs(old[address], new[address]))
    counts = {"added": len(added), "changed": len(changed), "destroyed": len(destroyed)}
    marked = [*(f"+ {at}" for at in added), *(f"~ {at}" for at in changed), *(f"- {at}" for at in destroyed)]
    shown = [plain_line(line, MAX_ADDRESS) for line in marked[:MAX_RESOURCES]]
    text = ", ".join(f"{count} {what}" for what, count in counts.items())
    return payload | counts | {"text": f"{root}: {text} (state {after.serial})", "resources": shown}
