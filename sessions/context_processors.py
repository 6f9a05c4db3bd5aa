"""Template context for every page."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from faults import services as fault_services
from faults.models import Cluster, Panic
from sessions import clock, disk_space


def disk_warning(request: HttpRequest) -> dict[str, str]:
    """Return what to tell the staff about the room on the disk. Candidates are not told."""
    user = getattr(request, "user", None)
    return {"disk_warning": disk_space.warning() if user is not None and user.is_authenticated else ""}


def stops(request: HttpRequest) -> dict[str, object]:
    """Return what has stopped for everybody, for who has signed in; only pages that show it pay the queries."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {}
    return {
        "engaged_panics": SimpleLazyObject(lambda: _panics(user)),
        "refusing_clusters": SimpleLazyObject(lambda: _refusing(user)),
    }


def _panics(user: User) -> list[Panic]:
    """Return the panics that are engaged; interviewers are told of those that may stop a new session of theirs."""
    panics = fault_services.engaged_panics()
    return [panic for panic in panics if user.is_staff or panic.cluster is None or panic.cluster.kept]


def _refusing(user: User) -> list[Cluster]:
    return list(fault_services.refusing_clusters(clock.now())) if user.is_staff else []
