"""Buttons of the parts that start during the interview."""

from __future__ import annotations

from typing import Final, Protocol
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpResponse
from django.views.decorators.http import require_POST

from sessions import limits, selectors, services
from sessions.errors import SessionError
from sessions.models import InterviewSession, StagedPart
from sessions.typing import HttpRequest
from sessions.views import replies


class PartAction(Protocol):
    """A service that changes one staged part."""

    def __call__(self, *, session: InterviewSession, number: int, actor: User | None) -> StagedPart:
        """Change the part."""


ACTIONS: Final[dict[str, PartAction]] = {
    "start": services.start_part,
    "retry": services.retry_part,
    "skip": services.skip_part,
    "hold": services.hold_part,
}
INJECTING: Final = ("start", "retry")


@require_POST
@login_required
def part_action(request: HttpRequest, uuid: UUID, part: int, action: str) -> HttpResponse:
    """Do one of ``ACTIONS`` with a part; answer with the panel that the button stands in."""
    if action not in ACTIONS:
        raise Http404("There is no such action.")
    session = selectors.session_for(request.user, uuid)
    if not session.staged_parts.filter(number=part).exists():
        raise Http404("There is no such part to start.")
    if action in INJECTING:
        limits.require(limits.PART_STARTS, str(session.uuid))
    error = None
    try:
        ACTIONS[action](session=session, number=part, actor=request.user)
    except SessionError as exc:
        error = exc
    if not request.htmx:
        return replies.back(request, session, error)
    session = selectors.session_for(request.user, uuid)
    return replies.panel(request, session, "stages", status=replies.status_of(error) if error else 200, error=error)
