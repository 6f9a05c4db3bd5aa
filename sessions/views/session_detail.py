"""One session: the page that fits its state, from draft to scored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from faults.models import FaultRun
from sessions import clock, frames, panels, presence, selectors
from sessions.candidate_rights import rights_of
from sessions.forms import AssessmentForm, CreditForm
from sessions.models import InterviewSession
from sessions.panels import progress, words
from sessions.panels.metrics import parse_minutes
from sessions.panels.subject import (
    INTERVIEWER,
    Subject,
    own_assessment,
    scenarios_of,
    screen_of,
    started_at_of,
)
from sessions.typing import HttpRequest

TEMPLATES = {
    "draft": "sessions/prepare.html",
    "prepare": "sessions/prepare.html",
    "ready": "sessions/ready.html",
    "live": "sessions/live.html",
    "ended": "sessions/ended.html",
    "releasing": "sessions/ended.html",
    "released": "sessions/ended.html",
}


@require_safe
@never_cache  # a page from the cache would tell an old clock, and tell it after signing out, too
@ensure_csrf_cookie
@login_required
def session_detail(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Show the screen that fits the session's state."""
    seq = frames.newest_seq(str(uuid), INTERVIEWER)  # before the database is read: the page is at least as new
    session = selectors.session_for(request.user, uuid)
    presence.seen(str(uuid), request.user.pk, presence.POLL, clock.now())
    return show(request, session, seq=seq)


def show(request: HttpRequest, session: InterviewSession, *, status: int = 200, **extra: Any) -> HttpResponse:
    """Render the session's page; ``extra`` carries a form with errors, or a link that is shown once."""
    screen = screen_of(session)
    context = {
        "session": session,
        "screen": screen,
        "role": INTERVIEWER,
        "viewer": request.user,
        "now_ms": round(clock.now().timestamp() * 1000),
        **words.tab(session),
        **_CONTEXTS.get(screen, _ended)(session, request),
        **extra,
    }
    return render(request, TEMPLATES[screen], context, status=status)


def _before(session: InterviewSession, request: HttpRequest) -> dict[str, Any]:
    return {
        "outline": _outline(session, request),
        "interviewers": session.interviewers.all(),
        "rights": rights_of(selectors.pack_for(row) for row in scenarios_of(session)),
    }


def _ready(session: InterviewSession, request: HttpRequest) -> dict[str, Any]:
    rows = scenarios_of(session)
    with_fault = [row for row in rows if row.is_open and selectors.pack_for(row).has_fault]
    proof = [(row, progress.scenario_chip(row), symptom_s(row.run)) for row in with_fault]
    return {**_before(session, request), "proof": proof, "later_scenarios": [row for row in rows if not row.is_open]}


def _live(session: InterviewSession, request: HttpRequest) -> dict[str, Any]:
    kept = {} if session.is_quiet(clock.now()) else _kept_panels(str(session.uuid))
    return {
        "whole": "whole" in request.GET,
        "centre": panels.placed(panels.CENTRE),
        "minutes": parse_minutes(request.GET.get("minutes", "")),
        "later": "whole" not in request.GET,
        "frames": {name: frames.with_current_ages(html) for name, html in kept.items()},
        "credit_form": CreditForm(),
    }


def _kept_panels(uuid: str) -> Mapping[str, str]:
    """Return the observer's drawings of what only it knows and, while it is alive, of all that holds no form.

    A form needs the CSRF token of its page, for people without JavaScript.
    """
    names = panels.observed() if frames.newest_seq(uuid, INTERVIEWER) is None else panels.observed() | panels.kept()
    shown = frames.panels_of(uuid, INTERVIEWER, sorted(names))
    return shown.panels if shown else {}


def _ended(session: InterviewSession, request: HttpRequest) -> dict[str, Any]:
    assessment = own_assessment(session, request.user)
    form = AssessmentForm(instance=assessment, initial={"version": assessment.version}) if assessment else None
    return {
        "assessment": assessment,
        "form": form,
        "quarantined": _quarantined(session),
        "started": started_at_of(session),
        "may_reopen": session.release_asked_at is None,
    }


def symptom_s(run: FaultRun | None) -> float | None:
    """Return the seconds from the first write of the fault to its confirmed symptom."""
    if run is None or run.symptom_at is None or run.injecting_at is None:
        return None
    return (run.symptom_at - run.injecting_at).total_seconds()


def _outline(session: InterviewSession, request: HttpRequest) -> list[dict[str, Any]]:
    subject = Subject(session, INTERVIEWER, None, request.user, clock.now())
    parts: list[dict[str, Any]] = progress.run_of_show(subject)["parts"]
    return parts


def _quarantined(session: InterviewSession) -> list[FaultRun]:
    if session.release_asked_at is None:
        return []
    runs = [row.run for row in scenarios_of(session) if row.run]
    runs += [session.environment] if session.environment else []
    return [run for run in runs if run.status == FaultRun.Status.QUARANTINED]


_CONTEXTS = {"draft": _before, "prepare": _before, "ready": _ready, "live": _live}
