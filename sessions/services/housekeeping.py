"""What must happen though nobody asks: called by the observer, safe to call at any time and from anywhere."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet

from faults import outbox
from faults.models import Lease, Outbox
from sessions import clock
from sessions.models import InterviewSession, PreparationPhase
from sessions.services.lifecycle import OVER
from sessions.services.phases import lease_name
from sessions.services.quiet import end_quiet_that_is_over
from sessions.services.release import JOB as RELEASE_JOB
from sessions.services.release import WORKERS as RELEASE_PHASES
from sessions.services.release import ask_for_release
from sessions.services.rows import State, locked

PATIENCE = timedelta(seconds=5)  # how long a job that was published may take to begin


def housekeep(now: datetime) -> int:
    """Release what ended 30 minutes ago, end quiet times that are over, and publish again the jobs that died.

    Returns how many jobs were published.
    """
    end_quiet_that_is_over(now)
    return _release_overdue(now) + sum(_republish(job, sessions, now) for job, sessions in _unfinished().items())


def _release_overdue(now: datetime) -> int:
    overdue = InterviewSession.objects.filter(
        state__in=OVER, release_asked_at__isnull=True, ended_at__lte=now - clock.GRACE
    )
    return sum(_release_if_still_ended(session) for session in overdue)


@transaction.atomic
def _release_if_still_ended(session: InterviewSession) -> bool:
    session = locked(session)
    if session.state not in OVER or session.release_asked_at is not None:
        return False
    ask_for_release(session, None)
    return True


def _unfinished() -> dict[str, QuerySet[InterviewSession]]:
    """Return who waits for each job. What failed waits for a person; a failed preparation stops no release."""
    failed = PreparationPhase.objects.filter(status=PreparationPhase.Status.FAILED)
    releasing = Q(key__in=RELEASE_PHASES) | Q(key__startswith="revert:")
    preparing = InterviewSession.objects.filter(state=State.PREPARING)
    released = InterviewSession.objects.filter(release_asked_at__isnull=False, released_at__isnull=True)
    return {
        "sessions.jobs.prepare_session": preparing.exclude(pk__in=failed.exclude(releasing).values("session")),
        RELEASE_JOB: released.exclude(pk__in=failed.filter(releasing).values("session")),
    }


def _republish(job: str, sessions: QuerySet[InterviewSession], now: datetime) -> int:
    stalled = [pk for pk in sessions.values_list("pk", flat=True) if not _is_being_done(job, pk, now)]
    for pk in stalled:
        with transaction.atomic():
            outbox.publish(job, pk)
    return len(stalled)


def _is_being_done(job: str, session_id: int, now: datetime) -> bool:
    if Lease.objects.filter(name=lease_name(session_id), until__gt=now).exists():
        return True
    return any(row.args == [session_id] for row in Outbox.objects.filter(job=job, created_at__gt=now - PATIENCE))
