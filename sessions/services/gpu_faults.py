"""Faults of GPUs that an interviewer injects by hand, beside those of the scenarios.

They go through the journaled engine under a lease like any other, end with their duration or with the session's
faults, whichever is first, and are taken back before the session's environment is withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from faults import selectors as fault_selectors
from faults import services as fault_services
from faults.check_results import FaultCheck
from faults.errors import ClusterError, FaultError
from faults.fault_checks import run_checks
from faults.gpu_reads import GpuNode, gpu_nodes
from faults.jobs import holder_name
from faults.models import Cluster, InjectedFault, Step
from faults.nvsentinel import GpuFault
from sessions import events
from sessions.errors import SessionError
from sessions.models import InterviewSession
from sessions.services.rows import State, locked, require
from sessions.services.tied_faults import faults_of, kind_of

WITHOUT_AGENTS = "This session's cluster has no node agents: none of its scenarios asks for them."
NO_SUCH_FAULT = "This session has no such fault."
GPU_STEPS = ("xid", "gpu")
ENDED_MEANWHILE = "The session has stopped meanwhile, so that the fault was taken back."


@dataclass(frozen=True, slots=True)
class CheckedFault:
    """A fault of a GPU with what its checks have found."""

    fault_id: str
    fault: GpuFault
    checks: list[FaultCheck]


def has_agents(session: InterviewSession) -> bool:
    """Return whether the session has brought node agents to its cluster."""
    return session.environment is not None and fault_selectors.agents_of(session.environment) is not None


def nodes_to_hit(*, session: InterviewSession) -> list[GpuNode]:
    """Ask the cluster for the nodes that can be hit. Raises SessionError."""
    with _in_words():
        return gpu_nodes(fault_selectors.kube_for(_cluster(session)))


def gpus_with_faults(*, session: InterviewSession) -> dict[tuple[str, int], str]:
    """Return the GPUs that have a fault of ours already, by node and number, and what it is."""
    active = InjectedFault.objects.filter(cluster=session.cluster, recovered_at=None, gpu__isnull=False)
    found = {(fault.node, int(fault.gpu or 0)): kind_of(fault.details) for fault in active}
    steps = [(step.target["name"], step.undo["fault"]) for step, _ in scenario_steps(session)]
    return found | {(node, int(about["gpu_id"])): kind_of(about) for node, about in steps}


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
            seconds=seconds,
            layers=layers,
            by=events.actor_name(actor),
            holder=holder_name(),
            details={"duration": seconds},
        )
    _require_live_still(session, fault)
    return fault


def _require_live_still(session: InterviewSession, fault: InjectedFault) -> None:
    """Take a fault back that came too late for the session. Raises SessionError."""
    with transaction.atomic():
        is_live = locked(session).state == State.LIVE
    if not is_live:
        recover_gpu_fault(session=session, fault_id=fault.fault_id, actor=None)
        raise SessionError(ENDED_MEANWHILE)


def recover_gpu_fault(*, session: InterviewSession, fault_id: str, actor: User | None) -> InjectedFault:
    """Take a fault back at once; one that has ended stays as it is."""
    fault = _fault(session, fault_id)
    with _in_words():
        return fault_services.recover_fault(
            cluster=fault.cluster, fault_id=fault_id, holder=holder_name(), by=events.actor_name(actor)
        )


def _fault(session: InterviewSession, fault_id: str) -> InjectedFault:
    found = faults_of(session).select_related("cluster").filter(fault_id=fault_id).first()
    if found is None:
        raise SessionError(NO_SUCH_FAULT)
    return found


def scenario_steps(session: InterviewSession) -> list[tuple[Step, str]]:
    """Return the faults of GPUs that the session's scenarios have let happen and that last, with their titles."""
    if not has_agents(session):  # which no scenario with such faults is without
        return []
    titles = dict(session.scenarios.filter(run__isnull=False).values_list("run_id", "scenario_version__title"))
    steps = Step.objects.filter(run__in=titles, kind__in=GPU_STEPS, status=Step.Status.APPLIED)
    return [(step, titles[step.run_id]) for step in steps.select_related("run").order_by("pk")]


def check_gpu_fault(*, session: InterviewSession, fault_id: str) -> CheckedFault:
    """Run every check of a fault in the cluster. Raises SessionError."""
    if session.cluster is None:
        raise SessionError(NO_SUCH_FAULT)
    found, name = _looked_at(session, fault_id)
    with _in_words():
        return CheckedFault(fault_id, found, run_checks(fault_selectors.kube_for(session.cluster), found, name))


def _looked_at(session: InterviewSession, fault_id: str) -> tuple[GpuFault, str]:
    """Return a fault, and what its agent calls it. Raises SessionError."""
    step = next((one for one, _ in scenario_steps(session) if one.undo["fault_id"] == fault_id), None)
    if step is not None:
        return _gpu_fault(step.target["name"], step.undo["fault"], step.applied_at or step.recorded_at), fault_id
    fault = _fault(session, fault_id)
    if fault.gpu is None:
        raise SessionError("Only faults of GPUs can be checked.")
    about = {**fault.details, "gpu_id": fault.gpu}
    at = fault.run.injected_at or fault.created_at
    return _gpu_fault(fault.node, about, at, fault.recovered_at), f"{fault_selectors.lease_of(fault.run).holder}-0"


def _gpu_fault(node: str, about: Mapping[str, Any], at: datetime, over_at: datetime | None = None) -> GpuFault:
    layers, effect = about.get("layers", "combined"), about.get("effect", "")
    return GpuFault(node, about["gpu_id"], about.get("xid_type", 0), at, layers, over_at, effect=effect)


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
