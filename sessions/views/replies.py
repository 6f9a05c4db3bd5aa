"""Answers that several screens give: a panel for htmx, a page for everybody else."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.middleware.csrf import get_token
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django_htmx.http import HttpResponseClientRedirect

from sessions import panels
from sessions.errors import SessionError, StaleEdit
from sessions.models import InterviewSession
from sessions.panels.subject import INTERVIEWER
from sessions.typing import HttpRequest


def panel(
    request: HttpRequest,
    session: InterviewSession,
    name: str,
    *,
    status: int = 200,
    error: SessionError | None = None,
    **extra: Any,
) -> HttpResponse:
    """Return an interviewer's panel, and a toast beside it where something was refused."""
    html = panels.render_for(session, name, INTERVIEWER, None, user=request.user, extra={**csrf(request), **extra})
    if error:
        html += render_to_string("_toasts.html", {"error": error.message, "oob": True})
    return HttpResponse(html, status=status)


def csrf(request: HttpRequest) -> dict[str, str]:
    """Return what a form needs that is drawn without a request context."""
    return {"csrf_token": get_token(request)}


def back(request: HttpRequest, session: InterviewSession, error: SessionError | None = None) -> HttpResponseRedirect:
    """Return to the session's page, for a browser without JavaScript; a refusal is shown there."""
    if error:
        messages.error(request, error.message)
    return redirect("session-detail", session.uuid)


def with_what_was_typed(error: SessionError, request: HttpRequest) -> SessionError:
    """Return a refusal that quotes the text it refused: without JavaScript the page with it is gone."""
    typed = (request.POST.get("text") or request.POST.get("note") or "").strip()
    return SessionError(f"{error.message} You had typed: {typed}") if typed else error


def reload(session: InterviewSession) -> HttpResponse:
    """Have htmx load the session's page anew, since another screen fits it now."""
    return HttpResponseClientRedirect(redirect("session-detail", session.uuid).url)


def status_of(error: SessionError) -> int:
    """Return 409 for an edit that came too late or does not fit the state, 422 for input that is wrong."""
    return 422 if error.field and not isinstance(error, StaleEdit) else 409
