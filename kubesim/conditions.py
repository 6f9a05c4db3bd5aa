"""The conditions of a status: one of each type, and since when it is as it is."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from kubesim.errors import Obj
from kubesim.times import stamp

Verdict = tuple[str, str, str]
"""What a condition says: its status, reason and message."""


def condition_of(status: Obj | None, kind: str) -> Obj:
    """Return the condition of a type; an empty one where there is none."""
    return next((each for each in (status or {}).get("conditions") or () if each["type"] == kind), {})


def said(condition: Obj) -> Verdict:
    """Return what a condition says."""
    return condition.get("status", ""), condition.get("reason", ""), condition.get("message", "")


def renewed(old: Obj, kind: str, says: Verdict, now: datetime) -> Obj:
    """Return the condition that takes the place of ``old``, whose time it keeps if the status stays."""
    truth, reason, message = says
    since = old.get("lastTransitionTime") if old.get("status") == truth else None
    times = {"lastTransitionTime": since or stamp(now)}
    return {"type": kind, "status": truth, **times, "reason": reason, "message": message}


def replaced(conditions: Iterable[Obj] | None, fresh: Obj) -> list[Obj]:
    """Return conditions with a new one: in the place of that of its type, or at the end."""
    found = [fresh if each["type"] == fresh["type"] else each for each in conditions or ()]
    return found if fresh in found else [*found, fresh]


def without(conditions: Iterable[Obj] | None, kind: str) -> list[Obj]:
    """Return conditions but for that of a type."""
    return [each for each in conditions or () if each["type"] != kind]
