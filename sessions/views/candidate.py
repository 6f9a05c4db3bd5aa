"""The candidate's page and kubeconfig. It is given nothing of the interviewer's panels."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from faults.errors import ClusterError, FaultError
from sessions import clock, frames, presence, selectors, services
from sessions.errors import SessionError
from sessions.models import InterviewSession
from sessions.panels import progress
from sessions.panels.subject import CANDIDATE
from sessions.typing import HttpRequest

FILE_NAME = "interview.kubeconfig"
TEMPLATES = {"lobby": "candidate/lobby.html", "live": "candidate/live.html", "over": "candidate/over.html"}


@require_safe
@never_cache
def candidate_page(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Show the lobby, the task, or that it is over."""
    seq = frames.newest_seq(str(uuid), CANDIDATE)  # before the database is read: the page is at least as new
    session = _session(request, uuid)
    presence.seen(str(uuid), None, presence.POLL, clock.now())
    return _page(request, session, seq=seq)


@require_safe
@never_cache
def candidate_kubeconfig(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Hand out a kubeconfig with fresh credentials, as a file."""
    session = _session(request, uuid)
    try:
        access = services.candidate_credentials(session=session)
    except SessionError as exc:
        return _page(request, session, status=409, error=exc.message)
    except (ClusterError, FaultError):
        sentence = "The cluster does not answer right now. Try again in a moment, and tell your interviewer."
        return _page(request, session, status=503, error=sentence)
    response = HttpResponse(access.kubeconfig, content_type="application/yaml")
    response.headers["Content-Disposition"] = f'attachment; filename="{FILE_NAME}"'
    return response


def _session(request: HttpRequest, uuid: UUID) -> InterviewSession:
    session = selectors.candidate_session(request)
    if session is None or session.uuid != uuid:
        raise Http404("There is no such session.")
    return session


def _page(
    request: HttpRequest,
    session: InterviewSession,
    *,
    status: int = 200,
    error: str = "",
    seq: int | None = None,
) -> HttpResponse:
    screen, toolbox = progress.candidate_screen(session), selectors.toolbox_for(session)
    context = {
        "session": session,
        "screen": screen,
        **progress.candidate_tab(session),
        "role": CANDIDATE,
        "viewer": None,
        "has_cluster": session.environment_id is not None,
        "file_name": FILE_NAME,
        "namespace": _namespace(session),
        "toolbox": toolbox,
        "tools": f"{', '.join(toolbox.tools[:-1])} and {toolbox.tools[-1]}" if toolbox else "",
        "now_ms": round(clock.now().timestamp() * 1000),
        "error": error,
        "seq": seq,
    }
    return render(request, TEMPLATES[screen], context, status=status)


def _namespace(session: InterviewSession) -> str:
    names = list((session.environment.namespaces if session.environment else {}).values())
    return str(names[0]) if names else ""
