"""What the interviewer does on the live page: hints, questions, notes and ratings. One small form each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from sessions import selectors, services
from sessions.errors import SessionError, StaleEdit
from sessions.forms import AnswerForm, RatingForm, first_error
from sessions.models import InterviewSession, Rating, SessionQuestion, SessionScenario
from sessions.panels.scoring import progress_of
from sessions.services.conduct import LONGEST_ANSWER
from sessions.typing import HttpRequest
from sessions.views import replies

States = InterviewSession.State


@require_POST
@login_required
def release_hint(request: HttpRequest, uuid: UUID, scenario: UUID, index: int) -> HttpResponse:
    """Give one hint to the candidate, for good."""
    session = selectors.session_for(request.user, uuid)
    row = get_object_or_404(_scenarios(session), uuid=scenario)
    error = None
    try:
        services.release_hint(scenario=row, index=index, actor=request.user)
    except SessionError as exc:
        error = exc
    if not request.htmx:
        return replies.back(request, session, error)
    return replies.panel(request, session, "hints", status=replies.status_of(error) if error else 200, error=error)


@require_POST
@login_required
def add_note(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Keep a note at the current session time; a refused note stays in its field."""
    session = selectors.session_for(request.user, uuid)
    text = request.POST.get("text", "")
    try:
        services.add_note(session=session, text=text, actor=request.user)
    except SessionError as exc:
        if not request.htmx:
            return replies.back(request, session, exc)
        return replies.panel(request, session, "notes", status=422, text=text, error_text=exc.message, focus=True)
    if not request.htmx:
        return replies.back(request, session)
    return replies.panel(request, session, "notes", focus=True)


@require_safe
@never_cache
@login_required
def session_tools(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Return what the live page fetches once it stands: the questions with their texts, and the notes so far."""
    session = selectors.session_for(request.user, uuid)
    answer = replies.panel(request, session, "questions")
    answer.write(replies.panel(request, session, "notes", list_only=True).content)
    return answer


@require_POST
@login_required
def mark_asked(request: HttpRequest, uuid: UUID, question: UUID) -> HttpResponse:
    """Remember when a question was asked."""
    session = selectors.session_for(request.user, uuid)
    row = get_object_or_404(_questions(session), uuid=question)
    error = None
    try:
        row = services.mark_asked(question=row, actor=request.user)
    except SessionError as exc:
        error = exc
    if not request.htmx:
        return replies.back(request, session, error)
    may_ask = session.state in (States.LIVE, States.PAUSED)
    context = {
        **{"session": session, "row": row, "open": True, "may_ask": may_ask, "may_note": may_ask, "error": error},
        **{"answer_limit": LONGEST_ANSWER, "total": session.questions.count()},
        "asked": session.questions.filter(asked_at__isnull=False).count(),
    }
    return render(request, "sessions/_question_asked.html", context, status=409 if error else 200)


@require_POST
@login_required
def save_answer(request: HttpRequest, uuid: UUID, question: UUID) -> HttpResponse:
    """Save what the candidate answered, as it is typed."""
    session = selectors.session_for(request.user, uuid)
    row = get_object_or_404(_questions(session), uuid=question)
    form = AnswerForm(request.POST)
    try:
        if not form.is_valid():
            raise SessionError(first_error(form), "text")
        data = form.cleaned_data
        row = services.save_answer_note(question=row, text=data["text"], version=data["version"], actor=request.user)
    except SessionError as exc:
        current = exc.current if isinstance(exc, StaleEdit) else None
        stored = {"text": current.answer_note} if current else {}
        return _saved(request, session, f"q{row.pk}", _version(current), exc, stored)
    return _saved(request, session, f"q{row.pk}", row.version)


@require_POST
@login_required
def save_rating(request: HttpRequest, uuid: UUID, scenario: UUID, criterion: str) -> HttpResponse:
    """Save one criterion's level and evidence, as they are entered."""
    session = selectors.session_for(request.user, uuid)
    row = get_object_or_404(_scenarios(session), uuid=scenario)
    key = f"{row.pk}-{criterion}"
    form = RatingForm(request.POST)
    try:
        if not form.is_valid():
            raise SessionError(first_error(form), "level")
        rating = services.save_rating(scenario=row, criterion=criterion, actor=request.user, **form.cleaned_data)
    except SessionError as exc:
        current = exc.current if isinstance(exc, StaleEdit) else None
        return _saved(request, session, key, _version(current), exc, _stored(current))
    return _saved(request, session, key, rating.version, more=progress_of(session, request.user))


def _saved(
    request: HttpRequest,
    session: InterviewSession,
    key: str,
    version: int | None,
    error: SessionError | None = None,
    stored: Mapping[str, str] = MappingProxyType({}),
    more: Mapping[str, int] = MappingProxyType({}),
) -> HttpResponse:
    """Tell that it was saved, or why not.

    A stale edit gets what is ``stored`` now, field by field, with its version: the browser keeps what was typed and
    saves again only when its person has chosen.
    """
    if not request.htmx:
        return replies.back(request, session, error and replies.with_what_was_typed(error, request))
    context = {"key": key, "version": version, "error": error.message if error else "", "stored": stored}
    return render(request, "parts/saved.html", {**context, **more}, status=replies.status_of(error) if error else 200)


def _version(row: Rating | SessionQuestion | None) -> int | None:
    return row.version if row else None


def _stored(rating: Rating | None) -> dict[str, str]:
    """Return the stored rating as its form's fields."""
    if rating is None:
        return {}
    level = "" if rating.level is None else str(rating.level)
    return {"level": level, "note": rating.note, "from_memory": "on" if rating.from_memory else ""}


def _scenarios(session: InterviewSession) -> QuerySet[SessionScenario]:
    return SessionScenario.objects.filter(session=session).select_related("session", "scenario_version", "run")


def _questions(session: InterviewSession) -> QuerySet[SessionQuestion]:
    return SessionQuestion.objects.filter(session=session).select_related("session", "question_version__question")
