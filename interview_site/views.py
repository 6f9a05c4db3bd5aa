"""Two addresses for those who run the site: is this process alive, and does everything answer."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from interview_site import readiness
from sessions import disk_space


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Say that this process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Say what does not answer or is short: 200 with an empty list, or 503; what will be soon is a warning."""
    missing = readiness.missing(name for name in readiness.PROBES if name != "web")
    missing += ["disk space"] if disk_space.is_short() else []
    warnings = [words] if (words := disk_space.warning()) else []
    return JsonResponse({"missing": missing, "warnings": warnings}, status=503 if missing else 200)
