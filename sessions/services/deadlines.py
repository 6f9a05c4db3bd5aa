"""Moves the time at which the reconciler withdraws a session's faults, whatever happens."""

from __future__ import annotations

from datetime import datetime

from faults.models import FaultRun
from sessions import clock
from sessions.models import InterviewSession


def move_deadlines(session: InterviewSession, now: datetime) -> None:
    """Set the deadline of every fault run that is not reverted, and of the environment."""
    ids = [*session.scenarios.values_list("run_id", flat=True), session.environment_id]
    FaultRun.objects.filter(pk__in=[pk for pk in ids if pk], reverted_at__isnull=True).update(
        deadline=clock.fault_deadline(session, now)
    )
