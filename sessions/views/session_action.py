"""The buttons that change a session's state, and the join link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from sessions import selectors, services
from sessions.errors import SessionError
from sessions.models import InterviewSession
from sessions.panels.subject import screen_of
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
    "end": lambda session, request: services.end(session=session, actor=request.user),
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
def session_join_link(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Make a join link and show it, this once."""
    session = selectors.session_for(request.user, uuid)
    try:
        context = {"join_url": services.issue_join_link(session=session, actor=request.user)}
        status = 200
    except SessionError as exc:
        context, status = {"join_error": exc.message}, 409
    if request.htmx:
        return render(request, "parts/join_link.html", {"session": session, **context}, status=status)
    return show(request, session, status=status, **context)


def _minutes(request: HttpRequest) -> int:
    text = request.POST.get("minutes", "")
    if not text.isascii() or not text.isdigit() or len(text) > 4:
        raise SessionError("Give the extension in whole minutes.", "minutes")
    return int(text)
