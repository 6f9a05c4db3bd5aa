"""Small forms of the live page: hints, records of questions, notes and ratings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.template.loader import render_to_string
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from sessions import clock, selectors, services, subjects
from sessions.errors import SessionError, StaleEdit
from sessions.forms import QuestionRecordForm, RatingForm, first_error
from sessions.models import InterviewSession, QuestionRecord, Rating, SessionQuestion, SessionScenario
from sessions.panels import questions
from sessions.panels.scoring import common_rubric, progress_of
from sessions.panels.subject import INTERVIEWER, Subject, own_assessment
from sessions.subjects import RatedSubject
from sessions.typing import HttpRequest
from sessions.views import replies


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
def mark_milestone(request: HttpRequest, uuid: UUID, scenario: UUID) -> HttpResponse:
    """Tick the milestone that ``mark`` names, as ``<key>:1``, or take the tick back, as ``<key>:0``."""
    session = selectors.session_for(request.user, uuid)
    row = get_object_or_404(_scenarios(session), uuid=scenario)
    key, _, reached = request.POST.get("mark", "").partition(":")
    error = None
    try:
        services.mark_milestone(scenario=row, key=key, reached=reached != "0", actor=request.user)
    except SessionError as exc:
        error = exc
    if not request.htmx:
        return replies.back(request, session, error)
    status = replies.status_of(error) if error else 200
    return replies.panel(request, session, "milestones", status=status, error=error)


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
    """Return what the live page fetches once it stands: questions, notes, and the criteria that every session has."""
    session = selectors.session_for(request.user, uuid)
    answer = replies.panel(request, session, "questions")
    answer.write(replies.panel(request, session, "notes", list_only=True).content)
    rubric = common_rubric(Subject(session, INTERVIEWER, None, request.user, clock.now()))
    context = {**replies.csrf(request), **rubric, "session": session, "common_only": True}
    answer.write(render_to_string("panels/rubric.html", context))
    return answer


@require_POST
@login_required
def mark_asked(request: HttpRequest, uuid: UUID, question: UUID) -> HttpResponse:
    """Remember when this interviewer asked a question."""
    session = selectors.session_for(request.user, uuid)
    row = get_object_or_404(_questions(session), uuid=question)
    error = None
    try:
        services.mark_asked(question=row, actor=request.user)
    except SessionError as exc:
        error = exc
    if not request.htmx:
        return replies.back(request, session, error)
    own = own_assessment(session, request.user)
    context = {
        **questions.progress_of(session, request.user),
        "session": session,
        "row": questions.question_row(session, row, own),
        "error": error,
    }
    return render(request, "sessions/_question_asked.html", context, status=409 if error else 200)


@require_POST
@login_required
def save_answer(request: HttpRequest, uuid: UUID, question: UUID) -> HttpResponse:
    """Save this interviewer's record of a question, as it is typed."""
    session = selectors.session_for(request.user, uuid)
    row = get_object_or_404(_questions(session), uuid=question)
    key = f"q{row.pk}"
    form = QuestionRecordForm(request.POST, wording=row.question_version)
    try:
        if not form.is_valid():
            raise SessionError(first_error(form), "text")
        data = form.cleaned_data
        record = services.save_question_record(
            question=row,
            answer=data["text"],
            follow_ups=form.positions("follow_up"),
            hints=form.positions("hint"),
            **{name: data[name] for name in ("level", "from_memory", "version")},
            actor=request.user,
        )
    except SessionError as exc:
        current = exc.current if isinstance(exc, StaleEdit) else None
        return _saved(request, session, key, _version(current), exc, _stored_record(current, row, request.user))
    return _saved(request, session, key, record.version, more=questions.progress_of(session, request.user))


@require_POST
@login_required
def save_rating(request: HttpRequest, uuid: UUID, scenario: UUID, criterion: str) -> HttpResponse:
    """Save the level and evidence of a scenario's criterion, as they are entered."""
    session = selectors.session_for(request.user, uuid)
    row = get_object_or_404(_scenarios(session), uuid=scenario)
    return _save_rating(request, session, subjects.of_scenario(row), criterion)


@require_POST
@login_required
def save_part_rating(request: HttpRequest, uuid: UUID, part: int, criterion: str) -> HttpResponse:
    """Save the level and evidence of a criterion of a part without a fault."""
    session = selectors.session_for(request.user, uuid)
    subject = subjects.of_part(session, part)
    if subject is None:
        raise Http404("There is no such part to rate.")
    return _save_rating(request, session, subject, criterion)


@require_POST
@login_required
def save_interview_rating(request: HttpRequest, uuid: UUID, criterion: str) -> HttpResponse:
    """Save the level and evidence of a criterion of the whole interview."""
    session = selectors.session_for(request.user, uuid)
    return _save_rating(request, session, subjects.of_interview(), criterion)


def _save_rating(
    request: HttpRequest, session: InterviewSession, subject: RatedSubject, criterion: str
) -> HttpResponse:
    key = f"{subject.key}-{criterion}"
    form = RatingForm(request.POST)
    try:
        if not form.is_valid():
            raise SessionError(first_error(form), "level")
        rating = services.save_subject_rating(
            session=session, subject=subject, criterion=criterion, actor=request.user, **form.cleaned_data
        )
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


def _version(row: Rating | QuestionRecord | None) -> int | None:
    return row.version if row else None


def _stored(rating: Rating | None) -> dict[str, str]:
    """Return the stored rating as its form's fields."""
    if rating is None:
        return {}
    level = "" if rating.level is None else str(rating.level)
    return {"level": level, "note": rating.note, "from_memory": "on" if rating.from_memory else ""}


def _stored_record(record: QuestionRecord | None, question: SessionQuestion, user: User) -> dict[str, str]:
    """Return the stored record as its form's fields."""
    if record is None:
        return {}
    rating = Rating.objects.filter(assessment=record.assessment_id, question=question).first()
    shown = questions.question_row(question.session, question, own_assessment(question.session, user))
    ticks = {row.name: "on" if row.used else "" for row in (*shown["follow_ups"], *shown["hints"])}
    stored = {"level": "", "from_memory": "", **_stored(rating), "text": record.answer, **ticks}
    stored.pop("note", None)  # the answer is the evidence
    return stored


def _scenarios(session: InterviewSession) -> QuerySet[SessionScenario]:
    return SessionScenario.objects.filter(session=session).select_related("session", "scenario_version", "run")


def _questions(session: InterviewSession) -> QuerySet[SessionQuestion]:
    return SessionQuestion.objects.filter(session=session).select_related("session", "question_version__question")
