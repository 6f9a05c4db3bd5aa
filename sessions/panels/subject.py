"""Subject of all panels: a session and the rows they read, each fetched once for a page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from django.contrib.auth.models import User
from django.db.models import FilteredRelation, Prefetch, Q, QuerySet, prefetch_related_objects

from sessions import clock, events
from sessions.kinds import Kind
from sessions.models import (
    Assessment,
    HintRelease,
    InterviewSession,
    Outage,
    QuestionRecord,
    SessionEvent,
    SessionQuestion,
    SessionScenario,
    StagedPart,
)

if TYPE_CHECKING:
    from sessions.live import LiveState

Context = dict[str, Any]

INTERVIEWER: Final = "interviewer"
CANDIDATE: Final = "candidate"


@dataclass(frozen=True, slots=True)
class Subject:
    """One session seen by one role at one time. ``user`` is set only where a page is drawn for one person.

    ``minutes`` is how far back the charts go that this person looks at; 0 is all of the interview.
    """

    session: InterviewSession
    role: str
    live: LiveState | None
    user: User | None
    now: datetime
    minutes: int = 0

    def objects(self, kind: Kind) -> list[dict[str, Any]]:
        """Return the objects of a kind that the panel reads: the session's own, and those of no namespace."""
        return self.live.objects(kind) if self.live else []


def scenarios_of(session: InterviewSession) -> list[SessionScenario]:
    """Return the session's scenarios with run and version, fetched once."""
    known = "scenarios" in getattr(session, "_prefetched_objects_cache", {})
    _fetch(
        session,
        Prefetch(
            "scenarios",
            SessionScenario.objects.select_related("scenario_version__scenario", "run", "stage").order_by("position"),
        ),
    )
    rows = list(session.scenarios.all())
    for row in rows if not known else ():
        if row.run and row.run.scenario_version_id == row.scenario_version_id:
            row.run.scenario_version = row.scenario_version  # the same row: no need to read a whole pack twice
    return rows


def open_scenarios_of(session: InterviewSession) -> list[SessionScenario]:
    """Return the scenarios that the candidate has to work on: not those of parts that have not begun."""
    return [row for row in scenarios_of(session) if row.is_open]


def staged_parts_of(session: InterviewSession) -> list[StagedPart]:
    """Return the parts that start during the interview, fetched once and only where there are any."""
    if not any(part.get("injection") for part in session.parts):
        return []
    _fetch(session, "staged_parts")
    return list(session.staged_parts.all())


def judged_scenarios_of(session: InterviewSession) -> list[SessionScenario]:
    """Return the session's scenarios with their check states as well, fetched once."""
    rows = scenarios_of(session)
    prefetch_related_objects(rows, "check_states")
    return rows


def released_hints(session: InterviewSession) -> dict[int, list[HintRelease]]:
    """Return the hints that were given, in order, by the scenario's key."""
    scenarios = scenarios_of(session)
    prefetch_related_objects(
        scenarios, Prefetch("hint_releases", HintRelease.objects.select_related("by").order_by("at"))
    )
    return {row.pk: list(row.hint_releases.all()) for row in scenarios}


def assessments_of(session: InterviewSession) -> list[Assessment]:
    """Return everybody's assessments for their states, fetched once. What others wrote is not for showing."""
    _fetch(session, Prefetch("assessments", Assessment.objects.select_related("interviewer").order_by("id")))
    return list(session.assessments.all())


def own_assessment(session: InterviewSession, user: User | None) -> Assessment | None:
    """Return the user's own assessment with its ratings, fetched once; None for one who does not interview."""
    own = next((row for row in assessments_of(session) if user and row.interviewer_id == user.pk), None)
    if own:
        prefetch_related_objects([own], "ratings")
    return own


def questions_of(session: InterviewSession) -> list[SessionQuestion]:
    """Return the session's questions with their frozen wording, fetched once."""
    rows = SessionQuestion.objects.select_related("question_version__question").order_by("position")
    _fetch(session, Prefetch("questions", rows))
    return list(session.questions.all())


def own_records_of(session: InterviewSession, own: Assessment | None) -> dict[int, QuestionRecord]:
    """Return the assessment's records of questions by the question's primary key, fetched once.

    Where the questions are still to be fetched, both come in one query.
    """
    if own is None:
        return {}
    fetched = own.__dict__.setdefault("_prefetched_objects_cache", {})
    if "question_records" not in fetched:
        mine = FilteredRelation("records", condition=Q(records__assessment=own))
        rows: QuerySet[Any] = SessionQuestion.objects.annotate(mine=mine)
        if "questions" in getattr(session, "_prefetched_objects_cache", {}):
            fetched["question_records"] = list(QuestionRecord.objects.filter(assessment=own))
        else:
            rows = rows.select_related("question_version__question", "mine").order_by("position")
            _fetch(session, Prefetch("questions", rows))
            found: list[Any] = questions_of(session)
            fetched["question_records"] = [row.mine for row in found if hasattr(row, "mine")]
    return {row.question_id: row for row in own.question_records.all()}


def clock_of(session: InterviewSession, now: datetime) -> Context:
    """Return what a ticking clock needs: milliseconds elapsed, the budget in milliseconds, and whether it runs."""
    _fetch(session, "clock_entries")
    return {
        "elapsed_ms": clock.elapsed_ms(session, now),
        "budget_ms": clock.budget_s(session) * 1000,
        "running": clock.is_running(session),
    }


def outages_of(session: InterviewSession) -> list[Outage]:
    """Return the ledger of outages, the oldest first, fetched once and only where there are any."""
    if not session.outage_count:
        return []
    _fetch(session, Prefetch("outages", Outage.objects.order_by("began_at")))
    return list(session.outages.all())


def restart_of(session: InterviewSession) -> SessionEvent | None:
    """Return the newest restart of the cluster; none is looked for where none was entered."""
    if not session.restart_count:
        return None
    return SessionEvent.objects.filter(session=session, kind=events.RESTARTED).order_by("-seq").first()


def started_at_of(session: InterviewSession) -> datetime | None:
    """Return when the clock first started, from entries fetched once."""
    _fetch(session, "clock_entries")
    return clock.started_at(session)


def screen_of(session: InterviewSession) -> str:
    """Return which screen of the interviewer fits the session's state; a page that shows another one reloads."""
    states = InterviewSession.State
    if session.state in (states.ENDED, states.SCORED) and session.release_asked_at:
        return "released" if session.released_at else "releasing"
    return {
        states.DRAFT: "draft",
        states.PREPARING: "prepare",
        states.READY: "ready",
        states.LIVE: "live",
        states.PAUSED: "live",
        states.ENDED: "ended",
        states.SCORED: "ended",
    }[states(session.state)]


def _fetch(session: InterviewSession, *lookups: str | Prefetch[Any]) -> None:
    first = lookups[0]
    name = first if isinstance(first, str) else first.prefetch_to
    if name not in getattr(session, "_prefetched_objects_cache", {}):
        prefetch_related_objects([session], *lookups)
