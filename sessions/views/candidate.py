"""The candidate's page and kubeconfig. It is given nothing of the interviewer's panels."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from faults.code_archive import MAX_ZIP_BYTES, ArchiveRefused
from faults.errors import ClusterError, FaultError
from sessions import clock, frames, presence, selectors, services
from sessions.errors import SessionError
from sessions.models import InterviewSession
from sessions.panels import progress
from sessions.panels.subject import CANDIDATE
from sessions.typing import HttpRequest

FILE_NAME = "interview.kubeconfig"
CODE_NAME = "platform.zip"
NO_ANSWER = "The cluster does not answer right now. Try again in a moment, and tell your interviewer."
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
        return _page(request, session, status=503, error=NO_ANSWER)
    response = HttpResponse(access.kubeconfig, content_type="application/yaml")
    response.headers["Content-Disposition"] = f'attachment; filename="{FILE_NAME}"'
    return response


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def candidate_code(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Hand out the session's Terraform code as a zip, or take one in its place."""
    session = _session(request, uuid)
    toolbox = selectors.toolbox_for(session)
    if toolbox is None or toolbox.terraform is None:
        raise Http404("This interview has no code.")
    try:
        if request.method == "POST":
            services.take_code(session=session, data=_uploaded(request))
            return redirect("candidate-page", uuid=uuid)
        archive = services.code_as_zip(session=session)
    except ArchiveRefused as exc:
        return _page(request, session, status=422, error=str(exc))
    except SessionError as exc:
        return _page(request, session, status=409, error=exc.message)
    except (ClusterError, FaultError):
        return _page(request, session, status=503, error=NO_ANSWER)
    response = HttpResponse(archive, content_type="application/zip")
    response.headers["Content-Disposition"] = f'attachment; filename="{CODE_NAME}"'
    return response


def _uploaded(request: HttpRequest) -> bytes:
    """Return the file of a form. Raises ArchiveRefused without one, and for one that is too large to be read."""
    file = request.FILES.get("code")
    if file is None:
        raise ArchiveRefused("Choose a zip file first.")
    if (file.size or 0) > MAX_ZIP_BYTES:
        raise ArchiveRefused(f"The zip is larger than {MAX_ZIP_BYTES // 1024} KiB.")
    data: bytes = file.read()
    return data


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
