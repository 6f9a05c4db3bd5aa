"""The panic stop: every run taken back now, and nothing injected until a person lifts it.

Needs the database and the clusters, neither Redis nor a worker. Whoever works on a run is fenced off. Clusters are
reverted side by side, so that one which does not answer delays nobody; the observer tries that one again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from django.db import IntegrityError, connections, transaction
from django.db.models import QuerySet

from faults import clock, journal, practice
from faults.errors import ClusterError, FaultError, LeaseHeld
from faults.models import Cluster, FaultRun, Panic
from faults.services.panic_state import engaged_panics
from faults.services.reverting import revert_run
from faults.tiers import policy_of

MAX_CLUSTERS_AT_ONCE = 32
MAX_TRIES = 3
HOLD_S = 15.0  # for what was deleted to go; the observer goes on from there
Tell = Callable[["PanicOutcome"], None]


@dataclass(frozen=True, slots=True)
class PanicOutcome:
    """One run after the panic: reverted, or the reason why not."""

    run: FaultRun
    error: str = ""


def engage_panic(*, by: str, cluster: Cluster | None = None) -> Panic:
    """Stop all injection, in one cluster or in all; the engaged one where it is engaged already."""
    for _ in range(2):
        found = engaged_panics().filter(cluster=cluster).first()
        if found is not None:
            return found
        try:
            with transaction.atomic():
                return Panic.objects.create(cluster=cluster, engaged_by=by)
        except IntegrityError:  # another click was faster
            continue
    raise FaultError("The panic could not be engaged. Try again.")


def lift_panic(*, by: str, cluster: Cluster | None = None) -> bool:
    """Allow injection again; False where no panic was engaged there."""
    return bool(engaged_panics().filter(cluster=cluster).update(lifted_at=clock.now(), lifted_by=by))


def runs_to_stop() -> QuerySet[FaultRun]:
    """Return the runs that an engaged panic covers and that may have changed something, the newest first."""
    everywhere = engaged_panics().filter(cluster__isnull=True).exists()
    changed = FaultRun.objects.exclude(status=FaultRun.Status.REVERTED).filter(fingerprint_before__isnull=False)
    covered = changed if everywhere else changed.filter(cluster__in=engaged_panics().values("cluster"))
    return covered.select_related("cluster").order_by("-pk")


def revert_engaged(tell: Tell = lambda outcome: None) -> list[PanicOutcome]:
    """Take back every run that a panic covers, side by side by cluster; never raises for what a cluster does."""
    by_cluster: dict[int, list[FaultRun]] = {}
    for run in runs_to_stop():
        by_cluster.setdefault(run.cluster_id, []).append(run)
    if not by_cluster:
        return []
    with ThreadPoolExecutor(min(len(by_cluster), MAX_CLUSTERS_AT_ONCE), "panic") as pool:
        found = pool.map(lambda runs: _revert_cluster(runs, tell), by_cluster.values())
        return [outcome for outcomes in found for outcome in outcomes]


def _revert_cluster(runs: Iterable[FaultRun], tell: Tell) -> list[PanicOutcome]:
    outcomes = []
    try:
        for run in runs:
            outcomes.append(_revert(run))
            tell(outcomes[-1])
    finally:
        connections.close_all()
    return outcomes


def _revert(run: FaultRun) -> PanicOutcome:
    try:
        if policy_of(run.cluster).may_be_dropped:
            practice.drop(run.cluster.name)  # made for one session: gone at once with all that is in it
        after = _revert_from_whoever_has_it(run)
    except (ClusterError, FaultError) as exc:
        return PanicOutcome(run, str(exc))
    done = after.status == FaultRun.Status.REVERTED
    return PanicOutcome(after, "" if done else after.error or "not reverted yet")


def _revert_from_whoever_has_it(run: FaultRun) -> FaultRun:
    holder = f"panic:{uuid.uuid4().hex[:8]}"
    for _ in range(MAX_TRIES):
        journal.break_lease(run.pk)
        try:
            return revert_run(run_id=run.pk, holder=holder, hold_s=HOLD_S)
        except LeaseHeld:
            continue
    raise LeaseHeld("Another worker keeps taking this run; it is reverted by that one.")
