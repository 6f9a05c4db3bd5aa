"""The scorecard: a page to read, a PDF and a JSON file to take away."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.dateparse import parse_datetime
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from sessions import clock, limits, scorecards, selectors
from sessions.models import InterviewSession
from sessions.scorecards import Scorecard
from sessions.typing import HttpRequest


@require_safe
@login_required
@never_cache
def page(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Show what the viewer may see of the scorecard, by the blind rule."""
    session = selectors.session_for(request.user, uuid)
    if session.is_quiet(clock.now()):
        messages.info(request, _quiet_words(session))
        return redirect("session-detail", session.uuid)
    card = scorecards.build_scorecard(session=session, viewer=request.user)
    waiting = [row["interviewer"] for row in card["submissions"] if not row["submitted"]]
    context = {
        "session": session,
        "card": card,
        "waiting": waiting,
        "charts": scorecards.charts_of(card),
        "started": parse_datetime(card["session"]["started_at"] or ""),
        "asked": [row for row in card["questions"] if row["asked_at"]],
        "unasked": [row for row in card["questions"] if not row["asked_at"]],
    }
    return render(request, "scorecards/scorecard.html", context)


@require_safe
@login_required
@never_cache
def pdf(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Send the PDF."""
    return _file(request, uuid, "pdf", "application/pdf", scorecards.as_pdf)


@require_safe
@login_required
@never_cache
def json(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Send the JSON."""
    return _file(request, uuid, "json", "application/json", scorecards.as_json)


def _file(
    request: HttpRequest, uuid: UUID, ending: str, content_type: str, write: Callable[[Scorecard], bytes]
) -> HttpResponse:
    session = selectors.session_for(request.user, uuid)
    if session.is_quiet(clock.now()):
        return HttpResponse(_quiet_words(session), content_type="text/plain; charset=utf-8", status=409)
    limits.require(limits.EXPORTS, str(request.user.pk))
    card = scorecards.build_scorecard(session=session, viewer=request.user)
    headers = {"Content-Disposition": f'attachment; filename="{scorecards.file_name(card, ending)}"'}
    return HttpResponse(write(card), content_type=content_type, headers=headers)


def _quiet_words(session: InterviewSession) -> str:
    """Return why there is no scorecard now: its checks and time line would show the candidate's work."""
    return (
        f"Nobody looks during quiet time, until {session.quiet_until:%H:%M:%S} UTC. The scorecard is here after it."
    )
