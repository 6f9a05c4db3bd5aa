"""Receivers of what the fault injection API tells: its faults belong to the sessions on their cluster."""

from __future__ import annotations

from typing import Any

from faults import fault_signals
from faults.models import Cluster, InjectedFault
from sessions.services import tied_faults

UID = "interview_sessions.faults"


def connect() -> None:
    """Hear of every fault from now on."""
    fault_signals.wanted.connect(_wanted, dispatch_uid=UID)
    fault_signals.written.connect(_written, dispatch_uid=UID)
    fault_signals.injected.connect(_injected, dispatch_uid=UID)
    fault_signals.ended.connect(_ended, dispatch_uid=UID)


def _wanted(cluster: Cluster, namespace: str, **rest: Any) -> int | None:
    return tied_faults.refuse_or_limit(cluster=cluster, namespace=namespace)


def _written(fault: InjectedFault, namespace: str, **rest: Any) -> None:
    tied_faults.tie(fault, namespace)


def _injected(fault: InjectedFault, **rest: Any) -> None:
    tied_faults.note_injected(fault)


def _ended(fault: InjectedFault, **rest: Any) -> None:
    tied_faults.note_ended(fault)
