"""The active observer's part in keeping time: write down how late it is, and follow the wall clock at rest."""

from __future__ import annotations

from faults import clock
from faults.models import FaultRun
from sessions.models import InterviewSession

State = InterviewSession.State
OVER = (FaultRun.Status.REVERTED, FaultRun.Status.QUARANTINED)


def keep_time() -> None:
    """Note the time; where nothing is open that a step would disturb, take over a wall clock that was set."""
    if is_anything_open():
        clock.installation().note()
    else:
        follow_time()


def follow_time() -> None:
    """Note the time and take over the wall clock; for moments in which nothing is open."""
    clock.installation().note()
    clock.installation().settle()


def is_anything_open() -> bool:
    """Whether an interview or a fault run has a clock or a deadline."""
    sessions = InterviewSession.objects.exclude(state=State.DRAFT).filter(released_at__isnull=True)
    return sessions.exists() or FaultRun.objects.exclude(status__in=OVER).exists()
