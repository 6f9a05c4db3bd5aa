"""Faults injected by hand or by programs, and the sessions that run on their cluster.

A fault belongs to each session that it can touch: it is on its panel and time line, is over when the session's
environment goes, and what it leaves counts as the session's residue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from django.db import transaction
from django.db.models import QuerySet

from faults import selectors as fault_selectors
from faults.models import Cluster, FaultRun, InjectedFault
from faults.services import ClusterInUse
from faults.tiers import policy_of_tier
from sessions import clock, events
from sessions.models import InterviewSession, SessionFault
from sessions.services.rows import State

OPEN = (State.LIVE, State.PAUSED)
WORDS = {
    State.PREPARING: "is being prepared",
    State.READY: "is ready to start",
    State.ENDED: "has ended, and its cluster is being let go",
    State.SCORED: "has ended, and its cluster is being let go",
}


def refuse_or_limit(*, cluster: Cluster, namespace: str) -> int | None:
    """Return how many seconds a fault may last for the sessions that it touches. Raises ClusterInUse unless live."""
    sessions = [*_touched(cluster, namespace)]
    for session in sessions:
        if session.state not in OPEN:
            raise ClusterInUse(f"An interview on {cluster.name} {WORDS[State(session.state)]}.")
    ends = [session.environment.deadline for session in sessions if session.environment]
    left = (round((end - clock.now()).total_seconds()) for end in ends if end is not None)
    return min((max(1, seconds) for seconds in left), default=None)


def tie(fault: InjectedFault, namespace: str) -> None:
    """Let a fault belong to the sessions that it touches. The caller holds the transaction."""
    for session in _touched(fault.cluster, namespace):
        SessionFault.objects.create(session=session, fault=fault)
        InterviewSession.objects.filter(pk=session.pk).update(has_tied_faults=True)


def note_injected(fault: InjectedFault) -> None:
    """Enter a fault into the time lines of its sessions."""
    _enter(fault, "injected", fault.requested_by, {})


def note_ended(fault: InjectedFault) -> None:
    """Enter its end, too, and by whom or what; one that never was has none. The caller holds the transaction."""
    if fault.error:
        return
    _enter(fault, "recovered", fault.ended_by or events.SYSTEM, {} if fault.ended_by else {"reason": _reason(fault)})


def faults_of(session: InterviewSession) -> QuerySet[InjectedFault]:
    """Return the faults injected beside the session's scenarios, the newest first."""
    return InjectedFault.objects.filter(session_faults__session=session).select_related("run").order_by("-pk")


def own_runs(session: InterviewSession) -> list[FaultRun]:
    """Return the runs of faults that end with this session, the newest first: no other that goes on has them."""
    others = SessionFault.objects.exclude(session=session).filter(session__state__in=OPEN)
    mine = FaultRun.objects.filter(injected_fault__session_faults__session=session)
    return list(mine.exclude(injected_fault__in=others.values("fault")).order_by("-pk"))


def title_of(fault: InjectedFault) -> str:
    """Return what a fault is and where, in words."""
    if fault.gpu is None:
        return f"{fault.type.replace('_', ' ').capitalize()} {fault.target}"
    named = kind_of({"effect": fault.type, **fault.details})
    return f"{named} on GPU {fault.gpu} of {fault.node}"


def kind_of(about: Mapping[str, object]) -> str:
    """Return what a fault of a GPU is, such as ``Xid 79``, given what it was asked for with."""
    return (
        f"Xid {about['xid_type']}" if about.get("xid_type") else str(about["effect"]).replace("_", " ").capitalize()
    )


def _touched(cluster: Cluster, namespace: str) -> Iterator[InterviewSession]:
    """Yield the sessions whose environment is in the cluster; a fault of one namespace touches those that have it."""
    there = InterviewSession.objects.filter(cluster=cluster, environment__isnull=False, released_at=None)
    for session in there.exclude(state=State.DRAFT).select_related("environment").order_by("pk"):
        shared = not policy_of_tier(session.tier).is_exclusive
        assert session.environment is not None  # as was asked for
        if not (shared and namespace and namespace not in fault_selectors.all_namespaces_of(session.environment)):
            yield session


@transaction.atomic
def _enter(fault: InjectedFault, what: str, actor: str, more: dict[str, str]) -> None:
    kind = "gpu_fault" if fault.gpu is not None else "network_fault"
    told = {key: fault.details[key] for key in ("xid_type", "layers", "duration") if key in fault.details}
    payload = {"text": title_of(fault), "fault_id": fault.fault_id, **told, **more}
    if more:
        payload["text"] = f"{payload['text']}, {more['reason']}"
    for link in SessionFault.objects.filter(fault=fault).select_related("session"):
        events.append(link.session, f"{kind}.{what}", actor=actor, payload=payload)


def _reason(fault: InjectedFault) -> str:
    end, deadline = fault.recovered_at, fault.run.deadline
    return "its time was over" if end and deadline and deadline <= end else "with all faults of the session"
