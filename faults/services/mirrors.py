"""Copies of runs' journals inside their clusters."""

from __future__ import annotations

from faults import selectors
from faults.engine import stays
from faults.injectors import renew_lease
from faults.kube.mirror import NAMESPACE, Mirror, MirrorJournal
from faults.models import FaultRun


def mirror_of(run: FaultRun) -> MirrorJournal:
    """Return the run's journal inside its cluster."""
    before = run.fingerprint_before
    ours = before is not None and not stays(before, f"v1/Namespace {NAMESPACE}")
    mirror = Mirror(
        f"run-{run.uuid.hex}",
        run.deadline,
        tuple(selectors.all_namespaces_of(run)),
        owns_namespace=ours,
        sequence=run.pk,
    )
    return MirrorJournal(selectors.kube_for(run.cluster), mirror)


def mirror_deadline(*, run_id: int) -> None:
    """Tell the copy of the journal in the cluster, and nodes' agents, when the run has to be gone.

    Needs no lease: nothing else of the copy is touched, so that nobody who changes the run has to wait for it.
    """
    run = FaultRun.objects.select_related("cluster").get(pk=run_id)
    if run.status != FaultRun.Status.REVERTED:
        mirror = mirror_of(run)
        mirror.move_deadline(run.deadline)
        renew_lease(selectors.kube_for(run.cluster), mirror.records(), selectors.lease_of(run))
    FaultRun.objects.filter(pk=run_id).update(mirrored_deadline=run.deadline)
