"""One interviewer's assessment: saved while it is written, submitted once, opened again only with a reason."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST
from django_htmx.http import reswap, retarget

from sessions import selectors, services
from sessions.errors import SessionError, StaleEdit
from sessions.forms import AssessmentForm
from sessions.models import Assessment, InterviewSession
from sessions.panels.subject import own_assessment
from sessions.typing import HttpRequest
from sessions.views import replies
from sessions.views.session_detail import show

FIELDS = tuple(AssessmentForm.Meta.fields)


@require_POST
@login_required
def save_assessment(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Save the form; with ``submit`` pressed, submit it too. What was typed is never lost."""
    session = selectors.session_for(request.user, uuid)
    form = AssessmentForm(request.POST)
    try:
        assessment = _save(session, form, request)
        form = _newest(request, assessment.version)  # what is refused from here on has been saved
        if "submit" in request.POST:
            services.submit_assessment(session=session, actor=request.user)
    except SessionError as exc:
        return _refused(request, session, form, exc)
    if "submit" in request.POST:
        messages.success(request, "Your assessment is submitted.")
    elif request.htmx:
        return render(request, "parts/saved.html", {"key": "assessment", "version": assessment.version})
    return replies.reload(session) if request.htmx else redirect("session-detail", session.uuid)


@require_POST
@login_required
def revise_assessment(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Open a submitted assessment for a new revision."""
    session = selectors.session_for(request.user, uuid)
    try:
        services.revise_assessment(session=session, actor=request.user, reason=request.POST.get("reason", ""))
    except SessionError as exc:
        return show(request, session, status=422, revise_error=exc.message)
    return redirect("session-detail", session.uuid)


def _save(session: InterviewSession, form: AssessmentForm, request: HttpRequest) -> Assessment:
    if not form.is_valid():
        name, errors = next(iter(form.errors.items()))
        raise SessionError(str(errors[0]), name)
    data: dict[str, Any] = form.cleaned_data
    return services.save_assessment(
        session=session, actor=request.user, version=data["version"], **{name: data[name] for name in FIELDS}
    )


def _newest(request: HttpRequest, version: int) -> AssessmentForm:
    """Return the form as it was sent, on the version that is stored now."""
    return AssessmentForm({**request.POST.dict(), "version": str(version)})


def _refused(
    request: HttpRequest, session: InterviewSession, form: AssessmentForm, error: SessionError
) -> HttpResponse:
    """Show the refusal: beside the form for an autosave, at its field for a submission."""
    version = error.current.version if isinstance(error, StaleEdit) and error.current else None
    if request.htmx and "submit" not in request.POST:
        current = error.current if isinstance(error, StaleEdit) else None
        stored = {name: getattr(current, name) for name in FIELDS} if current else {}
        context = {"key": "assessment", "version": version, "error": error.message, "stored": stored}
        return render(request, "parts/saved.html", context, status=replies.status_of(error))
    if version is not None:  # what was typed, on top of what is stored now: saving again is a decision
        form = _newest(request, version)
    if error.field not in form.errors:
        form.add_error(error.field if error.field in FIELDS else None, error.message)
    if request.htmx:
        context = {"session": session, "assessment": own_assessment(session, request.user), "form": form}
        page = render(request, "sessions/_assessment.html", context, status=replies.status_of(error))
        return reswap(retarget(page, "#assessment"), "outerHTML")
    return show(request, session, status=replies.status_of(error), form=form)
