"""The frame of every route that changes something: its caller is known, and the outcome is written down."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest

from faults import services
from faults.api.access import Caller
from faults.api.problems import problem_of
from faults.errors import ClusterError, FaultError
from faults.models import InjectedFault


def caller_of(request: HttpRequest) -> Caller:
    """Return who was let in."""
    caller: Caller = request.auth  # type: ignore[attr-defined]
    return caller


def recorded(caller: Caller, action: str, subject: str, act: Callable[[], InjectedFault]) -> InjectedFault:
    """Do something, and write down who asked for it and what became of it. Raises ApiProblem."""
    try:
        fault = act()
    except (ClusterError, FaultError) as exc:
        problem = problem_of(exc)
        services.note_api_event(
            cluster=caller.cluster,
            actor=caller.name,
            action=action,
            subject=subject,
            outcome=problem.code,
            detail=problem.detail,
        )
        raise problem from exc
    services.note_api_event(cluster=caller.cluster, actor=caller.name, action=action, subject=fault.fault_id)
    return fault
