"""The snapshot of a panel: what a page fetches after a gap, after a reconnect, or without a WebSocket."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from sessions import clock, live, panels, presence, selectors
from sessions.models import InterviewSession
from sessions.panels.subject import CANDIDATE, INTERVIEWER, OBSERVED
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
    return HttpResponse(_fragments(session, name, INTERVIEWER))


@require_safe
@never_cache
def candidate_panel(request: HttpRequest, uuid: UUID, name: str) -> HttpResponse:
    """Return one of the candidate's panels to the browser that joined."""
    session = selectors.candidate_session(request)
    if session is None or session.uuid != uuid:
        raise Http404("There is no such session.")
    if "X-Without-Socket" in request.headers:
        presence.seen(str(uuid), None, presence.POLL, clock.now())
    return HttpResponse(_fragments(session, name, CANDIDATE))


def _fragments(session: InterviewSession, name: str, role: str) -> str:
    names = panels.names_for(role)
    wanted = names if name == ALL else [name]
    if not set(wanted) <= set(names):
        raise Http404("There is no such panel.")
    return "".join(_fragment(session, one, role) for one in wanted)


def _fragment(session: InterviewSession, name: str, role: str) -> str:
    """Draw from the database what stands there; only what the cluster alone knows comes from the newest frame."""
    frame = live.snapshot(session, name, role)
    if frame and name in OBSERVED and not session.is_quiet(clock.now()):
        return frame.html
    return panels.render(session, name, role, None, seq=frame.seq if frame else 0)
