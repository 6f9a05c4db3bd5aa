"""The list of one's sessions, and the plans to begin a new one from."""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from sessions import clock, selectors
from sessions.models import InterviewSession
from sessions.typing import HttpRequest

SHOWN = 100


@require_safe
@login_required
def session_list(request: HttpRequest) -> HttpResponse:
    """Show the sessions the user owns or takes part in, those under way first."""
    now = clock.now()
    rows = [_row(session, now) for session in selectors.sessions_for(request.user)[:SHOWN]]
    rows.sort(key=lambda row: not row["under_way"])
    return render(request, "sessions/list.html", {"rows": rows, "plans": selectors.plans(), "nav": "sessions"})


def _row(session: InterviewSession, now: datetime) -> dict[str, object]:
    states = InterviewSession.State
    return {
        "session": session,
        "elapsed_ms": clock.elapsed_ms(session, now),
        "under_way": session.state in (states.LIVE, states.PAUSED, states.READY, states.PREPARING),
        "scenarios": [scenario.scenario_version.title for scenario in session.scenarios.all()],
    }
