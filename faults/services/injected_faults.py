"""Faults that the API injects and recovers: one run each, so that journal, deadline and panic stop hold for them too.

The caller waits for the outcome. An injection that fails is taken back at once: nothing happens behind the caller's
back later.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction

from faults import clock, fault_signals, gpu_nodes, selectors
from faults.errors import ClusterError, FaultError, LeaseHeld, NotYet, Unreachable
from faults.models import Cluster, FaultRun, InjectedFault
from faults.services.panic_state import refuse_while_engaged
from faults.services.reverting import revert_run
from faults.services.running import inject_run

MAX_SECONDS = 8 * 3600
MAX_PAUSE_S = 1.0
RECOVER_S = 4.0
"""A recovery takes at most 5 s, else the reconciler goes on with it."""
Obj = dict[str, Any]
Status = FaultRun.Status


class GpuHasFault(FaultError):
    """The GPU has another fault of ours, and recovering one would end both."""

    def __init__(self, fault: InjectedFault) -> None:
        super().__init__(f"GPU {fault.gpu} of {fault.node} has the fault {fault.fault_id} already.")
        self.fault_id = fault.fault_id


class ClusterInUse(FaultError):
    """Somebody uses the cluster for what a fault would spoil now."""


class NoSuchFault(FaultError):
    """The cluster has had no fault of that name."""


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault before it is injected: what it is called, what it hits, and the engine's steps."""

    fault_id: str
    type: str
    target: str
    steps: Sequence[Obj]
    seconds: int
    node: str = ""
    gpu: int | None = None
    details: Obj = field(default_factory=dict)
    namespace: str = ""
    """The one namespace that it touches; empty where it touches a node."""


@dataclass(frozen=True, slots=True)
class GpuPlace:
    """One GPU of a cluster."""

    node: str
    gpu: int


def fault_id_for(kind: str) -> str:
    """Return a new name: the type and eight hexadecimal digits."""
    return f"{kind}-{secrets.token_hex(4)}"


def inject_xid(
    *,
    cluster: Cluster,
    node: str,
    xid: int,
    gpu: int,
    seconds: int | None,
    layers: str,
    by: str,
    holder: str,
    details: Obj | None = None,
) -> InjectedFault:
    """Let an Xid happen on a GPU until it is recovered, or for ``seconds``, at most eight hours.

    Raises GpuHasFault, PanicEngaged, and ClusterError: NotFound (no such node), NoAgent, NoSuchGpu, ...
    """
    step = {"kind": "xid", "spec": {"node": node, "xid": xid, "gpu": gpu, "layers": layers}}
    told = {"xid_type": xid, "layers": layers, **(details or {})}
    planned = _planned(f"gpu_xid_{xid}", GpuPlace(node, gpu), step, seconds, told)
    return _inject_into_gpu(cluster, planned, by, holder)


def inject_gpu_trouble(
    *,
    cluster: Cluster,
    place: GpuPlace,
    effect: str,
    seconds: int | None,
    by: str,
    holder: str,
    details: Obj | None = None,
) -> InjectedFault:
    """Slow a GPU down, or take its memory or its time from others, as long as ``inject_xid`` does.

    Raises what that raises, and NotOnRealNodes.
    """
    step = {"kind": "gpu", "spec": {"node": place.node, "gpu": place.gpu, "effect": effect}}
    planned = _planned(f"gpu_{effect}", place, step, seconds, {"effect": effect, **(details or {})})
    return _inject_into_gpu(cluster, planned, by, holder)


def _planned(kind: str, place: GpuPlace, step: Obj, seconds: int | None, details: Obj) -> PlannedFault:
    told = {"gpu_id": place.gpu, "duration": seconds, **details}
    least = min(seconds or MAX_SECONDS, MAX_SECONDS)
    target = f"{place.node}/gpu{place.gpu}"
    return PlannedFault(fault_id_for(kind), kind, target, [step], least, place.node, place.gpu, told)


def _inject_into_gpu(cluster: Cluster, planned: PlannedFault, by: str, holder: str) -> InjectedFault:
    refuse_while_engaged(cluster)
    assert planned.gpu is not None  # planned by _planned
    kube = selectors.kube_for(cluster)
    gpu_nodes.refuse_while_booting(kube, planned.node)
    gpu_nodes.require_gpu(kube, planned.node, planned.gpu)
    return inject_fault(cluster=cluster, by=by, holder=holder, planned=planned)


def inject_fault(*, cluster: Cluster, planned: PlannedFault, by: str, holder: str) -> InjectedFault:
    """Write a fault down, then let it happen; it is over no later than those who use the cluster say.

    Raises ClusterInUse, and what ``inject_run`` does, after everything was taken back.
    """
    refuse_while_engaged(cluster)
    fault = _write_down(cluster, _limited(cluster, planned), by)
    try:
        _inject_patiently(fault.run_id, holder)
    except (ClusterError, FaultError) as exc:
        InjectedFault.objects.filter(pk=fault.pk).update(error=str(exc))
        _take_back(fault.run_id, holder)
        raise
    with transaction.atomic():
        fault = find_fault(cluster=cluster, fault_id=planned.fault_id)
        fault_signals.injected.send(InjectedFault, fault=fault)
    return fault


def _limited(cluster: Cluster, planned: PlannedFault) -> PlannedFault:
    """Return a fault that lasts no longer than those allow who use the cluster. Raises ClusterInUse."""
    answers: Any = fault_signals.wanted.send(Cluster, cluster=cluster, namespace=planned.namespace)
    allowed = [int(left) for _, left in answers if left is not None]
    return replace(planned, seconds=min([planned.seconds, *allowed]))


def _inject_patiently(run_id: int, holder: str) -> None:
    """Inject; once more where an agent asks to come back in a moment, since it takes one fault per second."""
    try:
        inject_run(run_id=run_id, holder=holder)
    except Unreachable as exc:
        if not 0 < (exc.retry_after or 0.0) <= MAX_PAUSE_S:
            raise
        clock.RealClock().wait(exc.retry_after or 0.0)
        inject_run(run_id=run_id, holder=holder)


def recover_fault(*, cluster: Cluster, fault_id: str, holder: str, by: str = "") -> InjectedFault:
    """End a fault; one that has ended stays as it is. Raises NoSuchFault, LeaseHeld, NotYet and ClusterError."""
    fault = find_fault(cluster=cluster, fault_id=fault_id)
    if fault.recovered_at is None:
        InjectedFault.objects.filter(pk=fault.pk, ended_by="").update(ended_by=by[:150])
        revert_run(run_id=fault.run_id, holder=holder, hold_s=RECOVER_S)
    return find_fault(cluster=cluster, fault_id=fault_id)


def find_fault(*, cluster: Cluster, fault_id: str) -> InjectedFault:
    """Return a fault of the cluster with its run. Raises NoSuchFault."""
    fault = InjectedFault.objects.select_related("run").filter(cluster=cluster, fault_id=fault_id).first()
    if fault is None:
        raise NoSuchFault(f"There is no fault {fault_id[:80]}.")
    return fault


def _write_down(cluster: Cluster, planned: PlannedFault, by: str) -> InjectedFault:
    try:
        with transaction.atomic():
            fault = _create(cluster, planned, by)
            fault_signals.written.send(InjectedFault, fault=fault, namespace=planned.namespace)
            return fault
    except IntegrityError:
        there = InjectedFault.objects.filter(cluster=cluster, node=planned.node, gpu=planned.gpu, recovered_at=None)
        if (other := there.first()) is None:
            raise
    raise GpuHasFault(other)


def _create(cluster: Cluster, planned: PlannedFault, by: str) -> InjectedFault:
    now = clock.now()
    run = FaultRun.objects.create(
        purpose=FaultRun.Purpose.API,
        cluster=cluster,
        parameters={selectors.STEPS: list(planned.steps)},
        deadline=now + timedelta(seconds=planned.seconds),
    )
    return InjectedFault.objects.create(
        fault_id=planned.fault_id,
        cluster=cluster,
        run=run,
        type=planned.type,
        target=planned.target,
        node=planned.node,
        gpu=planned.gpu,
        details=planned.details,
        requested_by=by[:150],
        created_at=now,
    )


def _take_back(run_id: int, holder: str) -> None:
    """Take back what an injection has left; where that fails now, the reconciler goes on with it."""
    FaultRun.objects.filter(pk=run_id).exclude(status=Status.REVERTED).update(status=Status.REVERTING)
    try:
        revert_run(run_id=run_id, holder=holder, hold_s=RECOVER_S)
    except (ClusterError, LeaseHeld, NotYet):
        return
