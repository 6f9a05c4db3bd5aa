"""The scorecard: a page to read, a PDF and a JSON file to take away."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.dateparse import parse_datetime
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from sessions import limits, scorecards, selectors
from sessions.scorecards import Scorecard
from sessions.typing import HttpRequest


@require_safe
@login_required
@never_cache
def page(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Show what the viewer may see of the scorecard, by the blind rule."""
    session = selectors.session_for(request.user, uuid)
    card = scorecards.build_scorecard(session=session, viewer=request.user)
    waiting = [row["interviewer"] for row in card["submissions"] if not row["submitted"]]
    context = {
        "session": session,
        "card": card,
        "waiting": waiting,
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
    card = _card(request, uuid)
    return _file(scorecards.as_pdf(card), "application/pdf", scorecards.file_name(card, "pdf"))


@require_safe
@login_required
@never_cache
def json(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Send the JSON."""
    card = _card(request, uuid)
    return _file(scorecards.as_json(card), "application/json", scorecards.file_name(card, "json"))


def _card(request: HttpRequest, uuid: UUID) -> Scorecard:
    session = selectors.session_for(request.user, uuid)
    limits.require(limits.EXPORTS, str(request.user.pk))
    return scorecards.build_scorecard(session=session, viewer=request.user)


def _file(content: bytes, content_type: str, name: str) -> HttpResponse:
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(content, content_type=content_type, headers=headers)
