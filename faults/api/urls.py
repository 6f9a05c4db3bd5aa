"""Addresses of the fault injection API, for the site and for guide mode."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse

from faults.api.injection import make_api, urls_of
from faults.api.problems import ApiProblem, answer


def injection_urls(*, staff_only: bool) -> list[Any]:
    """Return the API's addresses; ``staff_only`` is its description, not the API."""
    return urls_of(make_api(_for_staff if staff_only else None))


def _for_staff(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Let signed-in staff alone read the description: a candidate would learn that faults can be injected."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        user = request.user
        if not user.is_authenticated:
            return answer(
                ApiProblem(401, "not_signed_in", "Staff alone may read this.", "Sign in to the site first.")
            )
        if not (user.is_active and user.is_staff):
            return answer(ApiProblem(403, "staff_only", "Staff alone may read this.", "Ask an admin."))
        return view(request, *args, **kwargs)

    return guarded
