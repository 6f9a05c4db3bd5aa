"""Addresses of the fault injection API, for the site and for guide mode."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import render
from django.urls import path
from ninja import NinjaAPI

from faults.api.injection import make_api, urls_of
from faults.api.problems import ApiProblem, answer
from faults.api.reference import sections


def injection_urls(*, staff_only: bool) -> list[Any]:
    """Return the API's addresses; ``staff_only`` is its description, not the API."""
    api = make_api(_for_staff if staff_only else None, needs_token=staff_only)
    page = partial(show_reference, api=api, needs_token=staff_only)
    return [path("docs", page_for_staff(page) if staff_only else page, name="reference"), *urls_of(api)]


def page_for_staff(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Let signed-in staff alone read a page; others are sent to sign in, or told that they may not."""

    @login_required
    def guarded_page(request: HttpRequest) -> HttpResponse:
        if not getattr(request.user, "is_staff", False):
            raise PermissionDenied
        return view(request)

    return guarded_page


def show_reference(request: HttpRequest, *, api: NinjaAPI, needs_token: bool) -> HttpResponse:
    """Show the description of the API to people."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    prefix = request.path.removesuffix("docs")
    context = {"sections": sections(api, prefix), "schema_url": f"{prefix}openapi.json", "needs_token": needs_token}
    layout = "base.html" if needs_token else "api/bare.html"
    return render(request, "api/reference.html", {"layout": layout, **context})


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
