"""Queries of pages and exports. Permission is part of the look-up, so that nobody can forget it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import SessionBase
from django.db.models import Prefetch, Q, QuerySet
from django.http import Http404, HttpRequest
from django.utils.crypto import constant_time_compare

from faults import selectors as fault_selectors
from faults.models import ScenarioVersion
from faults.packs import Pack
from faults.toolbox import Toolbox
from sessions.models import (
    Assessment,
    ClockEntry,
    InterviewSession,
    Note,
    PlanVersion,
    Question,
    QuestionBank,
    QuestionVersion,
    SessionScenario,
)
from sessions.variants import expected_pack

CANDIDATE_KEY = "candidate_of"
BROWSER_KEY = "candidate_key"


def pack_for(scenario: SessionScenario) -> Pack:
    """Return the session's own pack: with the names of its fault run, or those that this run will have."""
    if scenario.run is not None:
        return fault_selectors.bound_pack(scenario.run)
    return expected_pack(scenario)


def sessions_for(user: User) -> QuerySet[InterviewSession]:
    """Return the sessions that the user may see, newest first; a superuser sees all."""
    sessions = InterviewSession.objects.select_related("owner", "cluster", "plan_version__plan").prefetch_related(
        "scenarios__scenario_version", Prefetch("clock_entries", ClockEntry.objects.order_by("id"))
    )
    if user.is_superuser:
        return sessions
    mine = InterviewSession.objects.filter(Q(owner=user) | Q(interviewers=user))
    return sessions.filter(pk__in=mine.values("pk"))


def session_for(user: User, uuid: UUID | str) -> InterviewSession:
    """Return one session that the user may see; Http404 for a stranger, as for one that does not exist."""
    try:
        sessions = sessions_for(user).select_related("cluster", "environment").prefetch_related(None)
        return sessions.defer("environment__fingerprint_before").get(uuid=uuid)
    except InterviewSession.DoesNotExist as exc:
        raise Http404("There is no such session.") from exc


def candidate_session(request: HttpRequest) -> InterviewSession | None:
    """Return the session whose candidate this browser is, or None."""
    uuid = request.session.get(CANDIDATE_KEY)
    if uuid is None:
        return None
    session = InterviewSession.objects.filter(uuid=uuid).select_related("environment").first()
    return session if session and is_candidate(request.session, session) else None


def toolbox_for(session: InterviewSession) -> Toolbox | None:
    """Return the session's toolbox; None where it has none, or no environment yet."""
    return fault_selectors.toolbox_of(session.environment) if session.environment else None


def bind_candidate(cookies: SessionBase, session: InterviewSession) -> None:
    """Make the browser that owns these cookies the candidate's, until the session gets a new join link."""
    cookies[CANDIDATE_KEY] = str(session.uuid)
    cookies[BROWSER_KEY] = session.browser_key


def is_candidate(cookies: Mapping[str, Any] | SessionBase, session: InterviewSession) -> bool:
    """Return whether the browser with these cookies joined by the session's newest link."""
    own = str(cookies.get(BROWSER_KEY, ""))
    return cookies.get(CANDIDATE_KEY) == str(session.uuid) and constant_time_compare(own, session.browser_key)


def assessment_for(session: InterviewSession, user: User) -> Assessment | None:
    """Return the user's own assessment with its ratings; None where the user is not an interviewer of it."""
    return session.assessments.filter(interviewer=user).prefetch_related("ratings__scenario").first()


def visible_assessments(session: InterviewSession, user: User) -> QuerySet[Assessment]:
    """Return the user's own assessment and, once it was submitted, everybody's.

    An admin who does not interview sees contents when everybody has submitted.
    """
    everybody = session.assessments.select_related("interviewer").prefetch_related("ratings__scenario")
    return everybody if is_past_blind_phase(session, user) else everybody.filter(interviewer=user)


def submission_states(session: InterviewSession) -> list[tuple[User, bool]]:
    """Return who has submitted: open to all interviewers, unlike what they wrote."""
    rows = session.assessments.select_related("interviewer")
    return [(row.interviewer, row.first_submitted_at is not None) for row in rows]


def notes_for(session: InterviewSession, user: User) -> QuerySet[Note]:
    """Return the user's own notes and, once the user has submitted, everybody's."""
    notes = session.notes.select_related("author")
    return notes if is_past_blind_phase(session, user) else notes.filter(author=user)


def pickable_scenarios() -> list[ScenarioVersion]:
    """Return the newest version of every scenario that is not archived, by title."""
    versions = ScenarioVersion.objects.filter(scenario__archived=False).select_related("scenario").order_by("number")
    newest = {version.scenario_id: version for version in versions}
    return sorted(newest.values(), key=lambda version: version.title)


def question_banks() -> QuerySet[QuestionBank]:
    """Return the banks with their questions; ``newest_question_versions`` turns one into what can be picked."""
    questions = Question.objects.filter(archived=False).prefetch_related(
        Prefetch("versions", QuestionVersion.objects.order_by("-number"))
    )
    return QuestionBank.objects.prefetch_related(Prefetch("questions", questions))


def newest_question_versions(bank: QuestionBank) -> list[QuestionVersion]:
    """Return the newest version of each question of a bank that came from ``question_banks``, in its order."""
    return [question.versions.all()[0] for question in bank.questions.all() if question.versions.all()]


def plans() -> list[PlanVersion]:
    """Return the newest version of every plan that is not archived, by title."""
    versions = PlanVersion.objects.filter(plan__archived=False).select_related("plan").order_by("number")
    newest = {version.plan_id: version for version in versions.prefetch_related("scenarios")}
    return sorted(newest.values(), key=lambda version: version.title)


def is_past_blind_phase(session: InterviewSession, user: User) -> bool:
    """Whether the user may see what others wrote: after their own submission; an admin, after everybody's."""
    rows = list(session.assessments.all())
    own = next((row for row in rows if row.interviewer_id == user.pk), None)
    if own is not None:
        return own.first_submitted_at is not None
    return user.is_superuser and all(row.first_submitted_at is not None for row in rows)
