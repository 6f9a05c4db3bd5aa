"""Upkeep that nobody asks for: called by the observer, safe to call at any time and from anywhere."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import QuerySet

from faults import outbox
from faults.models import Lease
from sessions import clock
from sessions.models import InterviewSession, PreparationPhase
from sessions.services.lifecycle import OVER
from sessions.services.phases import lease_name_of
from sessions.services.quiet import end_quiet_that_is_over
from sessions.services.release import JOB as RELEASE_JOB
from sessions.services.release import WORKERS as RELEASE_PHASES
from sessions.services.release import ask_for_release
from sessions.services.rows import State, locked
from sessions.services.staging import JOB as PART_JOB
from sessions.services.staging import start_due_parts, unfinished_sessions

PREPARE_JOB = "sessions.jobs.prepare_session"
PATIENCE = timedelta(seconds=5)  # a job that ended without a word is not published again before


def housekeep(now: datetime) -> int:
    """Release what ended 30 minutes ago, end quiet times that are over, start the parts that start by themselves, and
    publish again the jobs that died.

    Returns how many jobs were published.
    """
    end_quiet_that_is_over(now)
    start_due_parts(now)
    released = _release_overdue(now)
    held = set(Lease.objects.filter(until__gt=now).values_list("name", flat=True))
    return released + sum(_republish(job, sessions, held, now) for job, sessions in _unfinished().items())


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
    """Return the sessions that need each job."""
    return {
        PREPARE_JOB: InterviewSession.objects.filter(state=State.PREPARING),
        RELEASE_JOB: InterviewSession.objects.filter(release_asked_at__isnull=False, released_at__isnull=True),
        PART_JOB: unfinished_sessions(),
    }


def _republish(job: str, sessions: QuerySet[InterviewSession], held: set[str], now: datetime) -> int:
    unheld = [each.pk for each in sessions.only("tier", "cluster_id") if lease_name_of(each) not in held]
    stalled = [pk for pk in unheld if _is_due(job, pk, now)]
    for pk in stalled:
        with transaction.atomic():
            outbox.publish(job, pk)
    return len(stalled)


def _is_due(job: str, session_id: int, now: datetime) -> bool:
    """Return whether the job of a session that nobody holds is to be published: its next try has come.

    A phase that failed for good waits for a person; a failed preparation stops no release.
    """
    undone = [phase for phase in _phases(job, session_id) if phase.status != PreparationPhase.Status.DONE]
    if any(phase.status == PreparationPhase.Status.FAILED and not phase.next_try_at for phase in undone):
        return False
    if outbox.waits(job, session_id):
        return False
    tries = [phase.next_try_at for phase in undone if phase.next_try_at]
    return min(tries) <= now if tries else not outbox.begun_since(now - PATIENCE, now, job, session_id)


def _phases(job: str, session_id: int) -> list[PreparationPhase]:
    releasing = job == RELEASE_JOB
    phases = PreparationPhase.objects.filter(session_id=session_id)
    return [phase for phase in phases if (phase.key.partition(":")[0] in RELEASE_PHASES) == releasing]
