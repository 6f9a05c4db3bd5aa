"""Injecting a fault of a GPU by hand: the form with the preview of its effect, and the buttons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from faults import selectors as fault_selectors
from faults.check_results import Outcome
from faults.fault_preview import Effect, preview
from faults.gpu_reads import gpu_facts
from sessions import limits, selectors, services
from sessions.errors import SessionError
from sessions.gpu_fault_form import GpuFaultForm
from sessions.models import InterviewSession
from sessions.panels import words
from sessions.typing import HttpRequest
from sessions.views import replies

OUTCOMES: Final = {
    Outcome.EXPECTED: words.Chip("tick", "As expected", "green"),
    Outcome.UNEXPECTED: words.Chip("triangle", "Look here", "orange"),
    Outcome.NOTE: words.Chip("hollow", "Note", "grey"),
    Outcome.ERROR: words.Chip("octagon", "Not run", "red"),
}


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def session_faults(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Show the form with the exact effect of what is chosen; inject it where it is sent."""
    session = selectors.session_for(request.user, uuid)
    data = request.POST if request.method == "POST" else request.GET
    try:
        form = GpuFaultForm(services.nodes_to_hit(session=session), data, services.gpus_with_faults(session=session))
    except SessionError as exc:
        return _answer(request, session, {"error": exc.message}, 409)
    if not form.chosen:
        return _answer(request, session, {})
    if not form.is_valid():
        return _answer(request, session, {"form": form}, 422)
    if request.method != "POST":
        return _answer(request, session, {"form": form, "effects": _effects(session, form)})
    return _inject(request, session, form)


@require_POST
@login_required
def recover_fault(request: HttpRequest, uuid: UUID, fault: str) -> HttpResponse:
    """Take a fault back; answer with the panel that the button stands in."""
    session = selectors.session_for(request.user, uuid)
    error = None
    try:
        services.recover_gpu_fault(session=session, fault_id=fault, actor=request.user)
    except SessionError as exc:
        error = exc
    if not request.htmx:
        return replies.back(request, session, error)
    return replies.panel(request, session, "gpu-faults", status=409 if error else 200, error=error)


@require_safe
@never_cache
@login_required
def fault_checks(request: HttpRequest, uuid: UUID, fault: str) -> HttpResponse:
    """Run the checks of a fault now, and show what they found."""
    session = selectors.session_for(request.user, uuid)
    try:
        found = services.check_gpu_fault(session=session, fault_id=fault)
    except SessionError as exc:
        return _answer(request, session, {"error": exc.message}, 409)
    checks = [(OUTCOMES[one.outcome], one) for one in found.checks]
    looks = [one.title for one in found.checks if one.outcome == Outcome.UNEXPECTED]
    return _answer(request, session, {"checks": checks, "fault": found.fault, "key": fault, "looks": looks})


def _inject(request: HttpRequest, session: InterviewSession, form: GpuFaultForm) -> HttpResponse:
    limits.require(limits.GPU_FAULTS, str(session.uuid))
    try:
        chosen = {**form.cleaned_data, "seconds": form.cleaned_data["seconds"] or None}
        services.inject_gpu_fault(session=session, actor=request.user, **chosen)
    except SessionError as exc:
        if not request.htmx:
            return replies.back(request, session, exc)
        return _answer(
            request, session, {"form": form, "effects": _effects(session, form), "error": exc.message}, 409
        )
    if not request.htmx:
        return replies.back(request, session)
    told = form.cleaned_data
    done = f"Xid {told['xid']} is on GPU {told['gpu']} of {told['node']}."
    return _answer(request, session, {"done": done})


def _effects(session: InterviewSession, form: GpuFaultForm) -> list[Effect]:
    assert session.cluster is not None  # its nodes were asked for
    assert form.chosen is not None
    chosen = form.cleaned_data
    facts = gpu_facts(fault_selectors.kube_for(session.cluster), chosen["node"], chosen["gpu"])
    return preview(chosen["xid"], chosen["layers"], facts, form.chosen.allocatable)


def _answer(
    request: HttpRequest, session: InterviewSession, context: Mapping[str, Any], status: int = 200
) -> HttpResponse:
    template = "parts/gpu_fault.html" if request.htmx else "sessions/gpu_fault.html"
    return render(request, template, {"session": session, **context}, status=status)
