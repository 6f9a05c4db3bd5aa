"""One interviewer's assessment: saved while it is written, reviewed, submitted once, reopened only with a reason."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST
from django_htmx.http import HttpResponseClientRedirect, reswap, retarget

from sessions import selectors, services
from sessions.errors import SessionError, StaleEdit
from sessions.forms import AssessmentForm
from sessions.models import Assessment, InterviewSession
from sessions.panels import scoring
from sessions.panels.subject import own_assessment
from sessions.services.lifecycle import OVER
from sessions.services.scoring import draft_version, require_content
from sessions.typing import HttpRequest
from sessions.views import replies
from sessions.views.session_detail import show

FIELDS = tuple(AssessmentForm.Meta.fields)


@require_POST
@login_required
def save_assessment(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Save the form; with ``submit`` pressed, go on to the review. What was typed is never lost."""
    session = selectors.session_for(request.user, uuid)
    form = AssessmentForm(request.POST)
    try:
        assessment = _save(session, form, request)
        form = _newest(request, assessment.version)  # what is refused from here on has been saved
        if "submit" in request.POST:
            require_content(assessment)
    except SessionError as exc:
        return _refused(request, session, form, exc)
    if "submit" in request.POST:
        address = reverse("session-assessment-review", args=[session.uuid])
        return HttpResponseClientRedirect(address) if request.htmx else redirect(address)
    if request.htmx:
        return render(request, "parts/saved.html", {"key": "assessment", "version": assessment.version})
    return redirect("session-detail", session.uuid)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@login_required
def review_assessment(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Show what would be submitted, with everything that is missing; submit it once that is confirmed."""
    session = selectors.session_for(request.user, uuid)
    if own_assessment(session, request.user) is None:
        raise Http404("Only interviewers assess a session.")
    if request.method != "POST":
        return _review(request, session)
    try:
        _require_confirmed_gaps(request, session)
        reviewed = request.POST.get("reviewed", "")
        services.submit_assessment(session=session, actor=request.user, reviewed=reviewed)
    except SessionError as exc:
        return _review(request, selectors.session_for(request.user, uuid), exc)
    messages.success(request, "Your assessment is submitted.")
    return redirect("session-detail", session.uuid)


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


def _review(request: HttpRequest, session: InterviewSession, error: SessionError | None = None) -> HttpResponse:
    assessment = own_assessment(session, request.user)
    if assessment is None or assessment.submitted_at is not None or session.state not in OVER:
        return redirect("session-detail", session.uuid)
    context = {
        "session": session,
        "assessment": assessment,
        "reviewed": draft_version(assessment),
        "error": error,
        **scoring.review(session, request.user),
    }
    return render(request, "sessions/review.html", context, status=replies.status_of(error) if error else 200)


def _require_confirmed_gaps(request: HttpRequest, session: InterviewSession) -> None:
    found = scoring.review(session, request.user)
    if (found["unrated"] or found["bare"]) and "gaps" not in request.POST:
        raise SessionError("Confirm that you submit with these gaps, or go back and fill them.", "gaps")


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
