"""The real cluster that a session asks for: whether it can be had, told before anything is created.

The lease is taken later, by the first phase of the preparation, which refuses whoever comes second.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.contrib.auth.models import User
from django.utils import timezone

from faults import services as fault_services
from faults.models import Cluster
from sessions import clock, selectors
from sessions.models import InterviewSession


def refusal(
    *, cluster: Cluster, actor: User | None, start: datetime | None = None, holder: UUID | None = None
) -> str:
    """Return why a session cannot have a cluster, in one sentence; empty where it can.

    ``start`` is when it would begin (now, unless given), ``holder`` the session itself, which may have it already.
    """
    if cluster.archived or cluster.released_at is not None:
        return f"The cluster {cluster.name} is not offered any more. Choose another."
    if fault_services.credentials_refused_at(cluster, clock.now()) is not None:
        return fault_services.credentials_words(cluster)
    return _busy(cluster, actor, start, holder) or fault_services.preflight_refusal(cluster)


def _busy(cluster: Cluster, actor: User | None, start: datetime | None, holder: UUID | None) -> str:
    lease = fault_services.exclusive_lease(cluster)
    if lease is None or lease.holder == holder:
        return ""
    session = InterviewSession.objects.select_related("owner").filter(uuid=lease.holder).first()
    if session is None:
        return fault_services.busy_words(cluster)
    until = clock.fault_deadline(session)
    if start is not None and start >= until > clock.now():
        return ""
    return f"{_name(session, actor)} has the cluster {cluster.name} {_until(until)}. Choose another cluster, or wait."


def _name(session: InterviewSession, actor: User | None) -> str:
    """Return how a session is named; its title is for those who may see it."""
    owner = session.owner.get_full_name() or session.owner.get_username()
    seen = actor is not None and selectors.sessions_for(actor).filter(pk=session.pk).exists()
    return f"{owner}’s session “{session.title}”" if seen else f"A session of {owner}"


def _until(until: datetime) -> str:
    if until <= clock.now():
        return "until its release has finished"
    local = timezone.localtime(until)
    shown = f"{local:%H:%M}" if local.date() == timezone.localtime(clock.now()).date() else f"{local:%d %b, %H:%M}"
    return f"until {shown} at the latest"
