"""What must happen to runs though nobody asks. The observer calls ``tick``; it needs neither Redis nor a worker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from django.db.models import F, Q, QuerySet

from faults import services
from faults.errors import ClusterError, FaultError
from faults.jobs import holder_name
from faults.models import FaultRun

log = logging.getLogger(__name__)
Status = FaultRun.Status
Act = Callable[[FaultRun, datetime], object]
OVER = (Status.REVERTED, Status.QUARANTINED)
SYMPTOM_SECONDS = 30.0


def _never_set(run_id: int) -> timedelta:
    return timedelta()


def tick(now: datetime, clock_set: Callable[[int], timedelta] = _never_set) -> int:
    """Revert overdue runs, go on with those whose worker died, and tell clusters of moved deadlines.

    ``clock_set`` tells by a run's id how far the clock was set on since it was planned. Returns the number of runs
    that were attended to. A cluster that does not answer is tried again at the next tick.
    """
    late = [run for run in _unreverted() if run.deadline and run.deadline <= now - clock_set(run.pk)]
    duties: list[tuple[Iterable[FaultRun], Act]] = [
        (late, _revert),
        (unfinished_reverts(now), _revert),
        (orphaned_injections(now), _resume),
        (moved_deadlines(), _mirror_deadline),
    ]
    return sum(_attend(run, act, now) for runs, act in duties for run in runs)


def overdue(now: datetime) -> QuerySet[FaultRun]:
    """Return the runs whose deadline has passed; the newest first, so that an environment goes after its faults."""
    return _unreverted().filter(deadline__lte=now)


def unfinished_reverts(now: datetime) -> QuerySet[FaultRun]:
    """Return the reverts that nobody is on: their worker died, or their cluster did not answer."""
    return FaultRun.objects.filter(_unheld(now), status=Status.REVERTING).order_by("-id")


def orphaned_injections(now: datetime) -> QuerySet[FaultRun]:
    """Return the injections whose worker died holding the lease. One that waits for its next job holds none."""
    return FaultRun.objects.filter(status=Status.INJECTING, lease_until__lt=now).order_by("id")


def moved_deadlines() -> QuerySet[FaultRun]:
    """Return the runs, injecting or failed ones too, whose deadline is not the one that their cluster knows."""
    there = FaultRun.objects.filter(mirrored_deadline__isnull=False).exclude(status__in=OVER)
    return there.exclude(deadline=F("mirrored_deadline"))


def _unreverted() -> QuerySet[FaultRun]:
    return FaultRun.objects.filter(deadline__isnull=False).exclude(status__in=OVER).order_by("-id")


def _unheld(now: datetime) -> Q:
    return Q(lease_until__isnull=True) | Q(lease_until__lt=now)


def _attend(run: FaultRun, act: Act, now: datetime) -> int:
    try:
        act(run, now)
    except (ClusterError, FaultError) as exc:
        log.warning("%s: %s", run, exc)
        return 0
    return 1


def _revert(run: FaultRun, now: datetime) -> None:
    services.revert_run(run_id=run.pk, holder=holder_name(), now=now)


def _resume(run: FaultRun, now: datetime) -> None:
    services.inject_run(run_id=run.pk, holder=holder_name(), now=now)
    if run.purpose == FaultRun.Purpose.FAULT:
        services.confirm_symptom(run_id=run.pk, holder=holder_name(), timeout_s=SYMPTOM_SECONDS)


def _mirror_deadline(run: FaultRun, now: datetime) -> None:
    services.mirror_deadline(run_id=run.pk)
