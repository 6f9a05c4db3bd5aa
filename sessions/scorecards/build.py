"""Reads a session into a scorecard (docs/scorecard.md, schema.json). What a viewer may not see is never read in.

The blind rule: until an interviewer has submitted, the scorecard holds only that interviewer's own ratings and
notes, and of the others only whether they have submitted. Private notes are in no scorecard at all.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db.models import Prefetch
from django.utils.text import slugify

from faults.checks.model import Check
from faults.packs import Pack
from faults.plain_text import plain
from sessions import clock, events, scores, selectors, subjects
from sessions.models import (
    Assessment,
    CheckState,
    ClockEntry,
    HintRelease,
    InterviewSession,
    Outage,
    SessionEvent,
    SessionScenario,
)
from sessions.panels.subject import outages_of
from sessions.scorecards import course, ratings
from sessions.scorecards.metrics import metrics_of
from sessions.scorecards.times import moment, timestamp

SCHEMA_VERSION = "1.5"

Scorecard = dict[str, Any]


def build_scorecard(*, session: InterviewSession, viewer: User) -> Scorecard:
    """Return the scorecard of a session as ``viewer`` may see it now.

    Times are RFC 3339 in UTC; ``_ms`` is session time. Every text has passed ``faults.plain_text``.
    """
    session = _loaded(session)
    chain = events.chain(session)
    rows = _scenarios(session)
    packs = [(row, selectors.pack_for(row)) for row in rows]
    questions = list(session.questions.select_related("question_version__question__bank"))
    found = subjects.of_session(session, [row for row, _ in packs], questions)
    shown = ratings.shown(session, viewer)
    assessments = [ratings.assessment(row, found) for row in shown]
    card: Scorecard = {
        "schema_version": SCHEMA_VERSION,
        "generated_at": timestamp(clock.now()),
        "generated_for": viewer.get_username(),
        "session": _session(session),
        "candidate": {"name": session.candidate_name},
        "plan": _plan(session),
        "scenarios": _with_regressions(session, chain, [_scenario(session, row, pack, rows) for row, pack in packs]),
        "questions": ratings.questions(questions, shown, assessments, viewer),
        "notes": [_note(row) for row in selectors.notes_for(session, viewer)],
        "applies": course.applies(chain),
        "plans": course.plans(chain),
        "submissions": [_submission(row) for row in session.assessments.all()],
        "assessments": assessments,
        "computed": scores.computed(
            rating for item in assessments if item["status"] == "submitted" for rating in item["ratings"]
        ),
        "metrics": metrics_of(session, [row for row, _ in packs], chain),
        "release": {"released_at": timestamp(session.released_at), "residue": session.residue},
        "timeline": _timeline(session, chain),
    }
    return {key: _in_sight(value) for key, value in card.items()}


def _in_sight(value: Any) -> Any:
    """Return a part of the document with no character that acts instead of showing."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {key: _in_sight(part) for key, part in value.items()}
    return [_in_sight(part) for part in value] if isinstance(value, list) else value


def _loaded(session: InterviewSession) -> InterviewSession:
    """Return the session fresh, with what every part of the scorecard reads again and again."""
    rows = InterviewSession.objects.select_related("owner", "plan_version__plan")
    assessments = Assessment.objects.select_related("interviewer")
    return rows.prefetch_related("clock_entries", Prefetch("assessments", assessments)).get(pk=session.pk)


def file_name(card: Scorecard, ending: str) -> str:
    """Return a name for the downloaded file: candidate and day, in plain ASCII."""
    candidate = slugify(card["candidate"]["name"])[:60] or "candidate"
    day = (card["session"]["started_at"] or card["generated_at"])[:10]
    return f"scorecard-{candidate}-{day}.{ending}"


def _session(session: InterviewSession) -> dict[str, Any]:
    entries = list(session.clock_entries.all())
    return {
        "id": str(session.uuid),
        "title": session.title,
        "state": session.state,
        "tier": session.tier,
        "owner": session.owner.get_username(),
        "interviewers": [user.get_username() for user in session.interviewers.order_by("pk")],
        "scheduled_at": timestamp(session.scheduled_at),
        "started_at": timestamp(clock.started_at(session)),
        "ended_at": timestamp(session.ended_at),
        "first_request": moment(session, session.first_request_at),
        "planned_minutes": session.minutes,
        "elapsed_ms": clock.elapsed_ms(session),
        "extended_s": _seconds(entries, ClockEntry.Kind.EXTEND),
        "credited_s": _seconds(entries, ClockEntry.Kind.CREDIT),
        "clock": [_clock_entry(session, entry) for entry in entries],
        "outages": [_outage(session, outage) for outage in outages_of(session)],
    }


def _seconds(entries: list[ClockEntry], kind: ClockEntry.Kind) -> int:
    return sum(entry.seconds for entry in entries if entry.kind == kind)


def _clock_entry(session: InterviewSession, entry: ClockEntry) -> dict[str, Any]:
    return {
        "kind": entry.kind,
        "at": timestamp(entry.at),
        "session_ms": clock.elapsed_ms(session, entry.at),
        "seconds": entry.seconds,
        "reason": entry.reason,
    }


def _plan(session: InterviewSession) -> dict[str, Any] | None:
    version = session.plan_version
    if version is None:
        return None
    return {"slug": version.plan.slug, "title": version.title, "version": version.number, "parts": session.parts}


def _scenarios(session: InterviewSession) -> list[SessionScenario]:
    rows = session.scenarios.select_related("scenario_version__scenario", "run__scenario_version__scenario", "stage")
    hints = HintRelease.objects.select_related("by").order_by("at")
    return list(rows.prefetch_related("check_states", Prefetch("hint_releases", hints)))


def _scenario(
    session: InterviewSession, row: SessionScenario, pack: Pack, rows: list[SessionScenario]
) -> dict[str, Any]:
    version, run = row.scenario_version, row.run
    states = {state.key: state for state in row.check_states.all()}
    checks = [_check(session, check, states.get(check.key)) for check in pack.checks]
    return {
        "id": str(row.uuid),
        "slug": version.scenario.slug,
        "title": pack.title,
        "version": version.number,
        "digest": version.digest,
        "category": version.category,
        "difficulty": version.difficulty,
        "exercise": pack.exercise,
        "par_minutes": pack.par,
        "seed": run.seed if run else None,
        "parameters": run.parameters if run else {},
        "timings": {
            **course.beginning(session, row),
            "injected": moment(session, run.injected_at if run else None),
            "symptom_confirmed": moment(session, run.symptom_at if run else None),
            "fixed": moment(session, row.fixed_at),
            "held": moment(session, row.held_at),
            "regressed": [],
            **course.settling(session, row, pack, rows),
        },
        "points": {
            "earned": sum(check["points"] for check in checks if check["held"]),
            "possible": sum(check["points"] for check in checks),
        },
        "checks": checks,
        "guards": [_guard(session, check, states.get(check.key)) for check in pack.guards],
        "milestones": course.milestones(session, row, pack),
        "hints": [_hint(hint) for hint in row.hint_releases.all()],
    }


def _with_regressions(
    session: InterviewSession, chain: list[SessionEvent], scenarios: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Add the moments at which a repair that had held came undone: only the time line remembers them."""
    for event in (event for event in chain if event.kind == "scenario.regressed"):
        for scenario in scenarios:
            if scenario["id"] == event.payload["scenario"]:
                scenario["timings"]["regressed"].append(moment(session, event.at))
    return scenarios


def _check(session: InterviewSession, check: Check, state: CheckState | None) -> dict[str, Any]:
    return {
        **_verdict(check, state),
        "points": check.points,
        "hold_s": check.hold,
        "held": moment(session, state.held_at if state else None),
    }


def _guard(session: InterviewSession, check: Check, state: CheckState | None) -> dict[str, Any]:
    return {
        **_verdict(check, state),
        "broken": moment(session, state.broken_at if state else None),
        "broken_finding": state.broken_finding if state else "",
        "cause": _cause(state) if state and state.broken_at else None,
    }


def _cause(state: CheckState) -> dict[str, Any]:
    """Return what is known of why a guard broke; ``traceable`` says whether it can be held against anybody."""
    return {"change": state.change, "changed_by": state.changed_by, "traceable": state.traceable}


def _outage(session: InterviewSession, outage: Outage) -> dict[str, Any]:
    return {
        "began": moment(session, outage.began_at),
        "ended": moment(session, outage.ended_at),
        "reason": outage.reason,
        "credited_s": outage.credited_s,
    }


def _verdict(check: Check, state: CheckState | None) -> dict[str, Any]:
    return {
        "key": check.key,
        "title": check.title,
        "verdict": state.verdict if state else CheckState.Verdict.NOT_RUN.value,
        "finding": state.finding if state else "",
        "checked_at": timestamp(state.checked_at) if state else None,
    }


def _hint(hint: HintRelease) -> dict[str, Any]:
    return {
        "tier": hint.tier,
        "text": hint.text,
        "at": timestamp(hint.at),
        "session_ms": hint.session_ms,
        "by": hint.by.get_username(),
    }


def _note(row: Any) -> dict[str, Any]:
    return {
        "at": timestamp(row.at),
        "session_ms": row.session_ms,
        "author": row.author.get_username(),
        "text": row.text,
    }


def _submission(row: Assessment) -> dict[str, Any]:
    return {
        "interviewer": row.interviewer.get_username(),
        "submitted": row.first_submitted_at is not None,
        "submitted_at": timestamp(row.first_submitted_at),
    }


def _timeline(session: InterviewSession, chain: list[SessionEvent]) -> dict[str, Any]:
    return {
        "events": chain[-1].seq if chain else 0,
        "head": chain[-1].hash if chain else "",
        "broken_at": events.verify_chain(session, chain),
    }
