"""Template context for every page."""

from __future__ import annotations

from django.http import HttpRequest

from faults import services as fault_services
from sessions import disk_space


def disk_warning(request: HttpRequest) -> dict[str, str]:
    """Return what to tell the staff about the room on the disk. Candidates are not told."""
    user = getattr(request, "user", None)
    return {"disk_warning": disk_space.warning() if user is not None and user.is_authenticated else ""}


def panic(request: HttpRequest) -> dict[str, object]:
    """Return the panics that are engaged, for the notice on every staff page; nobody else pays a query for it."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated or not user.is_staff:
        return {}
    return {"engaged_panics": list(fault_services.engaged_panics())}
