"""The panic stop as people use it: engaged or lifted, and written into the time line of every session it touches."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q

from faults import services as fault_services
from faults.models import Cluster, FaultRun
from sessions import events
from sessions.models import InterviewSession


def engage_panic(*, cluster: Cluster | None, actor: User | str) -> None:
    """Stop all injection, in one cluster or in all. ``faults.services.revert_engaged`` then takes the runs back.

    ``actor`` is a user, or the name of whoever types the command.
    """
    fault_services.engage_panic(by=_name(actor), cluster=cluster)
    _tell("panic.engaged", cluster, actor)


def lift_panic(*, cluster: Cluster | None, actor: User | str) -> bool:
    """Allow injection again; False where no panic was engaged there."""
    lifted = fault_services.lift_panic(by=_name(actor), cluster=cluster)
    if lifted:
        _tell("panic.lifted", cluster, actor)
    return lifted


def _name(actor: User | str) -> str:
    return actor if isinstance(actor, str) else actor.get_username()


def _tell(kind: str, cluster: Cluster | None, actor: User | str) -> None:
    for session in _touched(cluster):
        with transaction.atomic():
            payload = {"cluster": cluster.name if cluster else "", "by": _name(actor)}
            events.append(session, kind, actor=None if isinstance(actor, str) else actor, payload=payload)


def _touched(cluster: Cluster | None) -> list[InterviewSession]:
    """Return the sessions that have something in the clusters; one that was released has not."""
    under_way = InterviewSession.objects.filter(released_at__isnull=True, cluster__isnull=False)
    changed = Q(environment__isnull=False) & ~Q(environment__status=FaultRun.Status.PLANNED)
    found = under_way.filter(changed | Q(state=InterviewSession.State.PREPARING))
    return list(found.filter(cluster=cluster) if cluster else found)
