"""Moves the time at which the reconciler withdraws a session's faults, whatever happens."""

from __future__ import annotations

from datetime import datetime, timedelta

from faults.models import FaultRun, InjectedFault
from sessions import clock
from sessions.models import InterviewSession


def move_deadlines(session: InterviewSession, now: datetime, slack: timedelta = timedelta()) -> None:
    """Set the deadline of every fault run that is not reverted, and of the environment.

    Faults injected by hand or by programs are among them unless they were given a duration.

    Each move is told to the cluster. One that is off by no more than ``slack`` stays.
    """
    by_hand = InjectedFault.objects.filter(session_faults__session=session, details__duration=None)
    ids = [*session.scenarios.values_list("run_id", flat=True), session.environment_id]
    ids += by_hand.filter(recovered_at=None).values_list("run_id", flat=True)
    runs = FaultRun.objects.filter(pk__in=[pk for pk in ids if pk], reverted_at__isnull=True)
    deadline = clock.fault_deadline(session, now)
    if slack:
        runs = runs.exclude(deadline__range=(deadline - slack, deadline + slack))
    runs.update(deadline=deadline)
