"""Values that every page of a staff member needs."""

from __future__ import annotations

from django.http import HttpRequest

from faults import services as fault_services


def panic(request: HttpRequest) -> dict[str, object]:
    """Return the panics that are engaged, for the notice on every staff page; nobody else pays a query for it."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated or not user.is_staff:
        return {}
    return {"engaged_panics": list(fault_services.engaged_panics())}
