"""The snapshot of a screen: what a page fetches without a WebSocket, and its panels one by one."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.utils.cache import patch_vary_headers
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from sessions import clock, frames, panels, presence, selectors, snapshots
from sessions.models import InterviewSession
from sessions.panels.metrics import parse_minutes
from sessions.panels.subject import CANDIDATE, INTERVIEWER
from sessions.typing import HttpRequest

ALL = "all"


@require_safe
@never_cache
@login_required
def session_panel(request: HttpRequest, uuid: UUID, name: str) -> HttpResponse:
    """Return one of the interviewer's panels, or all that are pushed; a stranger gets a 404."""
    session = selectors.session_for(request.user, uuid)
    if "X-Without-Socket" in request.headers:
        presence.seen(str(uuid), request.user.pk, presence.POLL, clock.now())
    return _answer(request, session, name, INTERVIEWER)


@require_safe
@never_cache
@login_required
def session_metrics(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Return the charts of the range that somebody looks at. They come from the database: Prometheus is not asked."""
    session = selectors.session_for(request.user, uuid)
    minutes = parse_minutes(request.GET.get("minutes", ""))
    return HttpResponse(panels.render_for(session, "metrics", INTERVIEWER, None, user=request.user, minutes=minutes))


@require_safe
@never_cache
@login_required
def session_key(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Return briefs and solutions: fetched when somebody opens them, and anew when a part has begun."""
    session = selectors.session_for(request.user, uuid)
    return HttpResponse(panels.render_for(session, "key", INTERVIEWER, None, user=request.user))


@require_safe
@never_cache
def candidate_panel(request: HttpRequest, uuid: UUID, name: str) -> HttpResponse:
    """Return one of the candidate's panels to the browser that joined."""
    session = selectors.candidate_session(request)
    if session is None or session.uuid != uuid:
        raise Http404("There is no such session.")
    if "X-Without-Socket" in request.headers:
        presence.seen(str(uuid), None, presence.POLL, clock.now())
    return _answer(request, session, name, CANDIDATE)


def _answer(request: HttpRequest, session: InterviewSession, name: str, role: str) -> HttpResponse:
    """Return the snapshot that all viewers share, nothing where the page has it; else draw what was asked for."""
    shared = snapshots.newest(str(session.uuid), role) if name == ALL else None
    if shared is None:
        return HttpResponse(_fragments(session, name, role))
    if request.headers.get("X-Shown") == str(shared.seq):
        return HttpResponse(status=204)
    zipped = "gzip" in request.headers.get("Accept-Encoding", "")
    response = HttpResponse(shared.zipped if zipped else shared.html, headers={"X-Shown": str(shared.seq)})
    if zipped:
        response.headers["Content-Encoding"] = "gzip"
    patch_vary_headers(response, ["Accept-Encoding"])
    return response


def _fragments(session: InterviewSession, name: str, role: str) -> str:
    names = panels.names_for(role)
    wanted = names if name == ALL else [name]
    if not set(wanted) <= set(names):
        raise Http404("There is no such panel.")
    if session.is_quiet(clock.now()):
        return "".join(_fragment(session, one, role, None) for one in wanted)
    found = frames.panels_of(str(session.uuid), role, [one for one in wanted if one in panels.observed()])
    kept = found.panels if found else {}
    if name == ALL and found is None:  # without Redis nobody knows the cluster: a page keeps what it has, and its age
        wanted = [one for one in wanted if one not in panels.observed()]
    return "".join(_fragment(session, one, role, kept.get(one)) for one in wanted)


def _fragment(session: InterviewSession, name: str, role: str, kept: str | None) -> str:
    """Draw from the database what stands there; only what the cluster alone knows comes from the newest frame."""
    return kept if kept is not None else panels.render(session, name, role, None)
