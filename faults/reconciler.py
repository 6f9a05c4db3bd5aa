"""Upkeep of runs that nobody asks for. The observer calls ``tick``; it needs neither Redis nor a worker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby

from django.db.models import F, Q, QuerySet

from faults import selectors, services
from faults.errors import ClusterError, FaultError, NotYet
from faults.jobs import holder_name
from faults.models import Cluster, FaultRun

log = logging.getLogger(__name__)
Status = FaultRun.Status
Act = Callable[[FaultRun, datetime], object]
Duty = Callable[[], int]
Spread = Callable[[int, Duty], int]
OVER = (Status.REVERTED, Status.QUARANTINED)
SYMPTOM_SECONDS = 30.0
HOLD_S = 2.0
ORPHANED = timedelta(seconds=10)  # the job that a try is scheduled for gets this long to come
RECHECK = timedelta(seconds=20)


def in_turn(cluster_id: int, duty: Duty) -> int:
    """Do a cluster's duty here and now."""
    return duty()


@dataclass
class Rechecks:
    """The clusters whose reverted runs are looked at again, every now and then."""

    every: timedelta = RECHECK
    _last: dict[int, datetime] = field(default_factory=dict)

    def due(self, now: datetime) -> list[Cluster]:
        """Return the clusters whose turn it is."""
        kept = _clusters_to_recheck()
        found = [cluster for cluster in kept if abs(now - self._last.get(cluster.pk, now - self.every)) >= self.every]
        self._last.update((cluster.pk, now) for cluster in found)
        return found


def tick(
    now: datetime,
    spread: Spread = in_turn,
    rechecks: Rechecks | None = None,
) -> int:
    """Revert overdue runs, go on with those whose worker died, and tell clusters of moved deadlines.

    Quarantined runs are looked at again: a person may have run the command. ``spread`` is given each cluster's duties
    as one call, so that a cluster which hangs holds up no other. Returns the number of runs that were attended to
    here.
    """
    duties: list[tuple[Iterable[FaultRun], Act]] = [
        ([run for run in overdue(now) if _is_due(run, now)], _revert),
        (panicked(now), _revert),
        (unfinished_reverts(now), _revert),
        (quarantined(now), _revert),
        (orphaned_injections(now), _resume),
        (moved_deadlines(), _mirror_deadline),
    ]
    work = {(run.pk, act): (run, act) for runs, act in duties for run in runs}  # a run that is late may be unfinished
    by_cluster = groupby(sorted(work.values(), key=_cluster_of), key=_cluster_of)
    done = sum(spread(pk, partial(_attend_all, list(entries), now)) for pk, entries in by_cluster)
    again = rechecks.due(now) if rechecks else []
    return done + sum(spread(cluster.pk, partial(_recheck, cluster, now)) for cluster in again)


def is_anything_left() -> bool:
    """Return whether ``tick`` may find something to do, now or later, as long as nobody changes the database."""
    return FaultRun.objects.exclude(status=Status.REVERTED).exists() or _clusters_to_recheck().exists()


def overdue(now: datetime) -> QuerySet[FaultRun]:
    """Return the runs whose deadline has passed; the newest first, so that an environment goes after its faults."""
    return _unreverted().filter(deadline__lte=now)


def panicked(now: datetime) -> list[FaultRun]:
    """Return the runs that a panic covers and nobody has reverted: the process that began with it may have died."""
    runs = services.runs_to_stop().filter(_unheld(now)).exclude(status=Status.QUARANTINED)
    return [run for run in runs if _is_due(run, now)]


def unfinished_reverts(now: datetime) -> QuerySet[FaultRun]:
    """Return the reverts that nobody is on: their worker died, or nobody came for the next try."""
    unattended = Q(next_try_at__isnull=True) | Q(next_try_at__lte=now - ORPHANED)
    return FaultRun.objects.filter(_unheld(now), unattended, status=Status.REVERTING).order_by("-id")


def quarantined(now: datetime) -> QuerySet[FaultRun]:
    """Return the runs that wait for a person, when it is time to see whether one has helped; the newest first."""
    due = Q(next_try_at__isnull=True) | Q(next_try_at__lte=now)
    return FaultRun.objects.filter(_unheld(now), due, status=Status.QUARANTINED).order_by("-id")


def orphaned_injections(now: datetime) -> QuerySet[FaultRun]:
    """Return the injections whose worker died holding the lease. One that waits for its next job holds none."""
    return FaultRun.objects.filter(status=Status.INJECTING, lease_until__lt=now).order_by("id")


def moved_deadlines() -> QuerySet[FaultRun]:
    """Return the runs, injecting or failed ones too, whose deadline is not the one that their cluster knows."""
    there = FaultRun.objects.filter(mirrored_deadline__isnull=False).exclude(status__in=OVER)
    return there.exclude(deadline=F("mirrored_deadline"))


def _clusters_to_recheck() -> QuerySet[Cluster]:
    reverted = FaultRun.objects.filter(status=Status.REVERTED, reverted_version__gt=0, dropped=False)
    return Cluster.objects.filter(pk__in=reverted.values("cluster")).exclude(kubeconfig="")


def _unreverted() -> QuerySet[FaultRun]:
    return FaultRun.objects.filter(deadline__isnull=False).exclude(status__in=OVER).order_by("-id")


def _unheld(now: datetime) -> Q:
    return Q(lease_until__isnull=True) | Q(lease_until__lt=now)


def _is_due(run: FaultRun, now: datetime) -> bool:
    return run.next_try_at is None or run.next_try_at <= now


def _cluster_of(entry: tuple[FaultRun, Act]) -> int:
    return entry[0].cluster_id


def _attend_all(entries: list[tuple[FaultRun, Act]], now: datetime) -> int:
    return sum(_attend(run, act, now) for run, act in entries)


def _attend(run: FaultRun, act: Act, now: datetime) -> int:
    try:
        act(run, now)
    except NotYet:
        return 1
    except (ClusterError, FaultError) as exc:
        log.warning("%s: %s", run, exc)
        return 0
    return 1


def _revert(run: FaultRun, now: datetime) -> None:
    services.revert_run(run_id=run.pk, holder=holder_name(), now=now, hold_s=HOLD_S)


def _resume(run: FaultRun, now: datetime) -> None:
    services.inject_run(run_id=run.pk, holder=holder_name(), now=now)
    if run.purpose == FaultRun.Purpose.FAULT:
        patience_s = selectors.symptom_patience_s(run, SYMPTOM_SECONDS)
        services.confirm_symptom(run_id=run.pk, holder=holder_name(), timeout_s=patience_s)


def _mirror_deadline(run: FaultRun, now: datetime) -> None:
    services.mirror_deadline(run_id=run.pk)


def _recheck(cluster: Cluster, now: datetime) -> int:
    try:
        return services.recheck_reverted(cluster=cluster, now=now)
    except (ClusterError, FaultError) as exc:
        log.warning("The reverted runs of %s are looked at later: %s", cluster, exc)
        return 0
