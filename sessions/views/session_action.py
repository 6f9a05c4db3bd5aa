"""The buttons that change a session's state, and the join link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST
from django_htmx.http import trigger_client_event

from sessions import limits, selectors, services
from sessions.errors import SessionError
from sessions.forms import CreditForm, first_error
from sessions.models import InterviewSession
from sessions.panels.subject import INTERVIEWER, screen_of
from sessions.typing import HttpRequest
from sessions.views import replies
from sessions.views.session_detail import show

Action = Callable[[InterviewSession, HttpRequest], object]

ACTIONS: Final[dict[str, Action]] = {
    "prepare": lambda session, request: services.prepare(session=session, actor=request.user),
    "retry": lambda session, request: services.retry_preparation(session=session, actor=request.user),
    "start": lambda session, request: services.start(session=session, actor=request.user),
    "pause": lambda session, request: services.pause(session=session, actor=request.user),
    "resume": lambda session, request: services.resume(session=session, actor=request.user),
    "extend": lambda session, request: services.extend(
        session=session, minutes=_minutes(request), actor=request.user
    ),
    "quiet": lambda session, request: services.begin_quiet(session=session, actor=request.user),
    "end-quiet": lambda session, request: services.end_quiet(session=session, actor=request.user),
    "end": lambda session, request: services.end_now(session=session, actor=request.user),
    "reopen": lambda session, request: services.reopen(session=session, actor=request.user),
    "release": lambda session, request: services.release(session=session, actor=request.user),
}


@require_POST
@login_required
def session_action(request: HttpRequest, uuid: UUID, action: str) -> HttpResponse:
    """Do one of ``ACTIONS``; answer with the panel that the button stands in, or with another screen."""
    if action not in ACTIONS:
        raise Http404("There is no such action.")
    session = selectors.session_for(request.user, uuid)
    if action in limits.INJECTING:
        limits.require(limits.INJECTIONS, str(session.uuid))
    before = screen_of(session)
    error = None
    try:
        ACTIONS[action](session, request)
    except SessionError as exc:
        error = exc
    session = selectors.session_for(request.user, uuid)
    if not request.htmx:
        return replies.back(request, session, error)
    if error is None and screen_of(session) != before:
        return replies.reload(session)
    name = "phases" if action in ("retry", "release") else "header"
    return replies.panel(request, session, name, status=replies.status_of(error) if error else 200, error=error)


@require_POST
@login_required
def session_credit(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Give back time that the candidate lost through us; a refusal stands at its field."""
    session = selectors.session_for(request.user, uuid)
    form = CreditForm(request.POST)
    try:
        if form.is_valid():
            seconds, reason = form.cleaned_data["minutes"] * 60, form.cleaned_data["reason"]
            services.credit(session=session, seconds=seconds, reason=reason, actor=request.user)
    except SessionError as exc:
        form.add_error({"seconds": "minutes"}.get(exc.field, exc.field) or None, exc.message)
    if not request.htmx:
        return replies.back(request, session, SessionError(first_error(form)) if form.errors else None)
    if form.errors:
        return render(request, "parts/credit.html", {"session": session, "credit_form": form}, status=422)
    context = {"session": session, "credit_form": CreditForm()}
    return trigger_client_event(render(request, "parts/credit.html", context), "faultline:done")


@require_POST
@login_required
def session_join_link(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Make a join link and show it, this once."""
    session = selectors.session_for(request.user, uuid)
    try:
        context: dict[str, Any] = {"join_url": services.issue_join_link(session=session, actor=request.user)}
        status = 200
    except SessionError as exc:
        context, status = {"join_error": exc.message}, 409
    if request.htmx:
        session = selectors.session_for(request.user, uuid)
        context |= {"session": session, "role": INTERVIEWER, "viewer": request.user}
        return render(request, "parts/join_link.html", context, status=status)
    return show(request, session, status=status, **context)


def _minutes(request: HttpRequest) -> int:
    text = request.POST.get("minutes", "")
    if not text.isascii() or not text.isdigit() or len(text) > 4:
        raise SessionError("Give the extension in whole minutes.", "minutes")
    return int(text)
