"""Addresses for those who run the site: is this process alive, does everything answer; and the last resort."""

from __future__ import annotations

import sys

from django.db import OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views import defaults
from django.views.decorators.http import require_safe

from interview_site import database_outages, readiness
from sessions import disk_space


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Say that this process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Say what does not answer or is short: 200 with an empty list, or 503; what will be soon is a warning."""
    try:
        missing = readiness.missing(name for name in readiness.PROBES if name != "web")
    except OperationalError:
        missing = ["database"]
    missing += ["disk space"] if disk_space.is_short() else []
    warnings = [words] if (words := disk_space.warning()) else []
    return JsonResponse({"missing": missing, "warnings": warnings}, status=503 if missing else 200)


def server_error(request: HttpRequest) -> HttpResponse:
    """Say that something broke, or that the database is away where middleware noticed that before any view."""
    return database_outages.answer(request, sys.exc_info()[1]) or defaults.server_error(request)
