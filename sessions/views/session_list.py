"""The list of one's sessions, page by page, and the plans to begin a new one from."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import Case, Exists, IntegerField, OuterRef, Q, QuerySet, Value, When
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from sessions import clock, selectors
from sessions.models import InterviewSession, PreparationPhase
from sessions.panels import words
from sessions.typing import HttpRequest

PER_PAGE = 25
LONGEST_SEARCH = 120
States = InterviewSession.State
UNDER_WAY: Final = (States.LIVE, States.PAUSED, States.READY, States.PREPARING)
FILTERS: Final[dict[str, tuple[str, tuple[States, ...]]]] = {
    "": ("All", ()),
    "under-way": ("Under way", UNDER_WAY),
    "draft": ("Drafts", (States.DRAFT,)),
    "ended": ("To be scored", (States.ENDED,)),
    "scored": ("Scored", (States.SCORED,)),
}


@require_safe
@never_cache
@login_required
def session_list(request: HttpRequest) -> HttpResponse:
    """Show the sessions the user owns or takes part in, those under way first."""
    search = request.GET.get("q", "").replace("\x00", "").strip()[:LONGEST_SEARCH]
    chosen = request.GET.get("state", "") if request.GET.get("state") in FILTERS else ""
    mine = selectors.sessions_for(request.user)
    page = Paginator(_ordered(_found(mine, search, chosen)), PER_PAGE).get_page(request.GET.get("page"))
    now = clock.now()
    context = {
        "rows": [_row(session, now) for session in page],
        "page": page,
        "search": search,
        "state": chosen,
        "filters": [(key, word) for key, (word, _) in FILTERS.items()],
        "query": urlencode({key: value for key, value in (("q", search), ("state", chosen)) if value}),
        "any": bool(page.paginator.count) or mine.exists(),
        "plans": selectors.plans(),
        "nav": "sessions",
    }
    return render(request, "sessions/list.html", context)


def _found(sessions: QuerySet[InterviewSession], search: str, chosen: str) -> QuerySet[InterviewSession]:
    states = FILTERS[chosen][1]
    if states:
        sessions = sessions.filter(state__in=states)
    for word in search.split():
        sessions = sessions.filter(Q(candidate_name__icontains=word) | Q(title__icontains=word))
    return sessions


def _ordered(sessions: QuerySet[InterviewSession]) -> QuerySet[InterviewSession]:
    first = Case(When(state__in=UNDER_WAY, then=Value(0)), default=Value(1), output_field=IntegerField())
    failed = PreparationPhase.objects.filter(session=OuterRef("pk"), status=PreparationPhase.Status.FAILED)
    sessions = sessions.annotate(needs_you=Exists(failed))
    return sessions.order_by(first, "-created_at", "-id")


def _row(session: InterviewSession, now: datetime) -> dict[str, object]:
    chip = (
        words.PHASE[PreparationPhase.Status.FAILED]
        if getattr(session, "needs_you", False)
        else words.SESSION[States(session.state)]
    )
    return {"session": session, "elapsed_ms": clock.elapsed_ms(session, now), "chip": chip}
