"""Faults of GPUs that an interviewer injects by hand, beside those of the scenarios.

They go through the journaled engine under a lease like any other, end with their duration or with the session's
faults, whichever is first, and are taken back before the session's environment is withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet

from faults import selectors as fault_selectors
from faults import services as fault_services
from faults.errors import ClusterError, FaultError
from faults.fault_checks import FaultCheck, run_checks
from faults.gpu_reads import GpuNode, gpu_nodes
from faults.jobs import holder_name
from faults.models import Cluster, FaultRun, InjectedFault
from faults.nvsentinel import GpuFault
from sessions import clock, events
from sessions.errors import SessionError
from sessions.models import InterviewSession
from sessions.services.rows import State, locked, require

WITHOUT_AGENTS = "This session's cluster has no node agents: none of its scenarios asks for them."
ENDED_MEANWHILE = "The session has stopped meanwhile, so that the fault was taken back."


def has_agents(session: InterviewSession) -> bool:
    """Return whether the session has brought node agents to its cluster."""
    return session.environment is not None and fault_selectors.agents_of(session.environment) is not None


def gpu_faults_of(session: InterviewSession) -> QuerySet[InjectedFault]:
    """Return the faults injected beside the scenarios, the newest first; its cluster is the session's alone."""
    return InjectedFault.objects.filter(cluster=session.cluster_id).select_related("run").order_by("-pk")


def nodes_to_hit(*, session: InterviewSession) -> list[GpuNode]:
    """Ask the cluster for the nodes that can be hit. Raises SessionError."""
    with _in_words():
        return gpu_nodes(fault_selectors.kube_for(_cluster(session)))


def inject_gpu_fault(
    *,
    session: InterviewSession,
    node: str,
    gpu: int,
    xid: int,
    layers: str,
    seconds: int | None,
    actor: User,
) -> InjectedFault:
    """Let an Xid happen; without ``seconds`` until somebody takes it back or the session's faults end."""
    cluster = _cluster(session)
    with transaction.atomic():
        require(locked(session), [State.LIVE], "inject a fault")
    with _in_words():
        fault = fault_services.inject_xid(
            cluster=cluster,
            node=node,
            xid=xid,
            gpu=gpu,
            seconds=_seconds_within(session, seconds),
            layers=layers,
            by=events.actor_name(actor),
            holder=holder_name(),
            details={"session": str(session.uuid), "duration": seconds},
        )
    _enter(session, fault, actor)
    return fault


def _seconds_within(session: InterviewSession, seconds: int | None) -> int | None:
    """Return how long a fault may last: no longer than the session's environment is there."""
    deadline = session.environment.deadline if session.environment else None
    left = None if deadline is None else max(1, round((deadline - clock.now()).total_seconds()))
    return min((value for value in (seconds, left) if value is not None), default=None)


def _enter(session: InterviewSession, fault: InjectedFault, actor: User) -> None:
    """Enter a fault into the time line; one that came too late for the session is taken back. Raises SessionError."""
    with transaction.atomic():
        is_live = locked(session).state == State.LIVE
        events.append(session, "gpu_fault.injected", actor=actor, payload=_payload(fault))
    if not is_live:
        recover_gpu_fault(session=session, fault_id=fault.fault_id, actor=None)
        raise SessionError(ENDED_MEANWHILE)


def recover_gpu_fault(*, session: InterviewSession, fault_id: str, actor: User | None) -> InjectedFault:
    """Take a fault back at once; one that has ended stays as it is."""
    cluster = _cluster(session)
    with _in_words():
        before = fault_services.find_fault(cluster=cluster, fault_id=fault_id)
        fault = fault_services.recover_fault(cluster=cluster, fault_id=fault_id, holder=holder_name())
    if before.recovered_at is None:
        with transaction.atomic():
            events.append(session, "gpu_fault.recovered", actor=actor, payload=_payload(fault))
    return fault


def check_gpu_fault(*, session: InterviewSession, fault_id: str) -> tuple[InjectedFault, list[FaultCheck]]:
    """Run every check of a fault in the cluster. Raises SessionError."""
    cluster = _cluster(session)
    with _in_words():
        fault = fault_services.find_fault(cluster=cluster, fault_id=fault_id)
        if fault.gpu is None:
            raise FaultError("Only faults of GPUs can be checked.")
        at, code, layers = (
            fault.run.injected_at or fault.created_at,
            fault.details["xid_type"],
            fault.details["layers"],
        )
        looked_at = GpuFault(fault.node, fault.gpu, code, at, layers, fault.recovered_at)
        name = f"{fault_selectors.lease_of(fault.run).holder}-0"
        return fault, run_checks(fault_selectors.kube_for(cluster), looked_at, name)


def unreverted_runs(session: InterviewSession) -> list[FaultRun]:
    """Return the runs of such faults that are still to be taken back, the newest first."""
    left = FaultRun.objects.filter(cluster=session.cluster_id, purpose=FaultRun.Purpose.API)
    return list(left.exclude(status=FaultRun.Status.REVERTED).order_by("-pk"))


def _payload(fault: InjectedFault) -> dict[str, object]:
    told = {key: fault.details[key] for key in ("xid_type", "layers", "duration")}
    return {"text": f"Xid {told['xid_type']} on GPU {fault.gpu} of {fault.node}", "fault_id": fault.fault_id, **told}


def _cluster(session: InterviewSession) -> Cluster:
    if not has_agents(session) or session.cluster is None:
        raise SessionError(WITHOUT_AGENTS)
    return session.cluster


@contextmanager
def _in_words() -> Iterator[None]:
    """Turn what the engine or the cluster refuses into a refusal that a person reads."""
    try:
        yield
    except (ClusterError, FaultError) as exc:
        raise SessionError(str(exc)) from exc
