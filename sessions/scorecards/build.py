"""Reads a session into a scorecard (docs/scorecard.md, schema.json). What a viewer may not see is never read in.

The blind rule: until an interviewer has submitted, the scorecard holds only that interviewer's own ratings and
notes, and of the others only whether they have submitted. Private notes are in no scorecard at all.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Prefetch, prefetch_related_objects
from django.utils.text import slugify

from faults.checks.model import Check
from faults.packs import Pack
from faults.plain_text import plain
from sessions import clock, events, scores, selectors
from sessions.models import (
    Assessment,
    CheckState,
    ClockEntry,
    HintRelease,
    InterviewSession,
    Outage,
    SessionEvent,
    SessionQuestion,
    SessionScenario,
)

SCHEMA_VERSION = "1.1"

Scorecard = dict[str, Any]
_Packs = list[tuple[SessionScenario, Pack]]


def build_scorecard(*, session: InterviewSession, viewer: User) -> Scorecard:
    """Return the scorecard of a session as ``viewer`` may see it now.

    Times are RFC 3339 in UTC; ``_ms`` is session time. Every text has passed ``faults.plain_text``.
    """
    session = _loaded(session)
    chain = events.chain(session)
    packs = [(row, selectors.pack_for(row)) for row in _scenarios(session)]
    assessments = [_assessment(row, packs) for row in _shown(session, viewer)]
    card: Scorecard = {
        "schema_version": SCHEMA_VERSION,
        "generated_at": _time(clock.now()),
        "generated_for": viewer.get_username(),
        "session": _session(session),
        "candidate": {"name": session.candidate_name},
        "plan": _plan(session),
        "scenarios": _with_regressions(session, chain, [_scenario(session, row, pack) for row, pack in packs]),
        "questions": [_question(row) for row in session.questions.select_related("question_version__question__bank")],
        "notes": [_note(row) for row in selectors.notes_for(session, viewer)],
        "submissions": [_submission(row) for row in session.assessments.all()],
        "assessments": assessments,
        "computed": scores.computed(
            rating for item in assessments if item["status"] == "submitted" for rating in item["ratings"]
        ),
        "release": {"released_at": _time(session.released_at), "residue": session.residue},
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
        "scheduled_at": _time(session.scheduled_at),
        "started_at": _time(clock.started_at(session)),
        "ended_at": _time(session.ended_at),
        "first_request": _moment(session, session.first_request_at),
        "planned_minutes": session.minutes,
        "elapsed_ms": clock.elapsed_ms(session),
        "extended_s": _seconds(entries, ClockEntry.Kind.EXTEND),
        "credited_s": _seconds(entries, ClockEntry.Kind.CREDIT),
        "clock": [_clock_entry(session, entry) for entry in entries],
        "outages": [_outage(session, outage) for outage in session.outages.order_by("began_at")],
    }


def _seconds(entries: list[ClockEntry], kind: ClockEntry.Kind) -> int:
    return sum(entry.seconds for entry in entries if entry.kind == kind)


def _clock_entry(session: InterviewSession, entry: ClockEntry) -> dict[str, Any]:
    return {
        "kind": entry.kind,
        "at": _time(entry.at),
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
    rows = session.scenarios.select_related("scenario_version__scenario", "run__scenario_version__scenario")
    hints = HintRelease.objects.select_related("by").order_by("at")
    return list(rows.prefetch_related("check_states", Prefetch("hint_releases", hints)))


def _scenario(session: InterviewSession, row: SessionScenario, pack: Pack) -> dict[str, Any]:
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
        "seed": run.seed if run else None,
        "parameters": run.parameters if run else {},
        "timings": {
            "injected": _moment(session, run.injected_at if run else None),
            "symptom_confirmed": _moment(session, run.symptom_at if run else None),
            "fixed": _moment(session, row.fixed_at),
            "held": _moment(session, row.held_at),
            "regressed": [],
        },
        "points": {
            "earned": sum(check["points"] for check in checks if check["held"]),
            "possible": sum(check["points"] for check in checks),
        },
        "checks": checks,
        "guards": [_guard(session, check, states.get(check.key)) for check in pack.guards],
        "hints": [_hint(hint) for hint in row.hint_releases.all()],
    }


def _with_regressions(
    session: InterviewSession, chain: list[SessionEvent], scenarios: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Add the moments at which a repair that had held came undone: only the time line remembers them."""
    for event in (event for event in chain if event.kind == "scenario.regressed"):
        for scenario in scenarios:
            if scenario["id"] == event.payload["scenario"]:
                scenario["timings"]["regressed"].append(_moment(session, event.at))
    return scenarios


def _check(session: InterviewSession, check: Check, state: CheckState | None) -> dict[str, Any]:
    return {
        **_verdict(check, state),
        "points": check.points,
        "hold_s": check.hold,
        "held": _moment(session, state.held_at if state else None),
    }


def _guard(session: InterviewSession, check: Check, state: CheckState | None) -> dict[str, Any]:
    return {
        **_verdict(check, state),
        "broken": _moment(session, state.broken_at if state else None),
        "broken_finding": state.broken_finding if state else "",
        "cause": _cause(state) if state and state.broken_at else None,
    }


def _cause(state: CheckState) -> dict[str, Any]:
    """Return what is known of why a guard broke; ``traceable`` says whether it can be held against anybody."""
    return {"change": state.change, "changed_by": state.changed_by, "traceable": state.traceable}


def _outage(session: InterviewSession, outage: Outage) -> dict[str, Any]:
    return {
        "began": _moment(session, outage.began_at),
        "ended": _moment(session, outage.ended_at),
        "reason": outage.reason,
        "credited_s": outage.credited_s,
    }


def _verdict(check: Check, state: CheckState | None) -> dict[str, Any]:
    return {
        "key": check.key,
        "title": check.title,
        "verdict": state.verdict if state else CheckState.Verdict.NOT_RUN.value,
        "finding": state.finding if state else "",
        "checked_at": _time(state.checked_at) if state else None,
    }


def _hint(hint: HintRelease) -> dict[str, Any]:
    return {
        "tier": hint.tier,
        "text": hint.text,
        "at": _time(hint.at),
        "session_ms": hint.session_ms,
        "by": hint.by.get_username(),
    }


def _question(row: SessionQuestion) -> dict[str, Any]:
    version = row.question_version
    return {
        "id": str(row.uuid),
        "bank": version.question.bank.slug,
        "key": version.question.key,
        "version": version.number,
        "category": version.question.category,
        "title": version.title,
        "asked_at": _time(row.asked_at),
        "asked_ms": row.asked_ms,
        "answer_note": row.answer_note,
    }


def _note(row: Any) -> dict[str, Any]:
    return {
        "at": _time(row.at),
        "session_ms": row.session_ms,
        "author": row.author.get_username(),
        "text": row.text,
    }


def _submission(row: Assessment) -> dict[str, Any]:
    return {
        "interviewer": row.interviewer.get_username(),
        "submitted": row.first_submitted_at is not None,
        "submitted_at": _time(row.first_submitted_at),
    }


def _shown(session: InterviewSession, viewer: User) -> list[Assessment]:
    """Return the viewer's own assessment and those that others have submitted; never another's draft."""
    others = selectors.is_past_blind_phase(session, viewer)
    rows = [
        row
        for row in session.assessments.all()
        if row.interviewer == viewer or (others and row.first_submitted_at is not None)
    ]
    prefetch_related_objects(rows, "revisions", "ratings")
    return rows


def _assessment(row: Assessment, packs: _Packs) -> dict[str, Any]:
    """Return an assessment: as it was submitted, word for word, or its owner's draft."""
    content = _submitted_content(row)
    status = "submitted" if content else "draft"
    content = content or _draft_content(row, packs)
    given = {(rating["scenario"], rating["criterion"]): rating for rating in content["ratings"]}
    ratings = [_rating(scenario, pack, key, given) for scenario, pack in packs for key in range(len(pack.rubric))]
    figures = scores.computed(ratings)
    return {
        "interviewer": row.interviewer.get_username(),
        "status": status,
        "revision": content["revision"],
        "revision_reason": content["reason"],
        "submitted_at": content["submitted_at"],
        "overall": content["overall"],
        "overall_label": Assessment.Recommendation(content["overall"]).label,
        "takeaways": content["takeaways"],
        "strengths": content["strengths"],
        "concerns": content["concerns"],
        "ratings": ratings,
        "computed": figures,
        "differs_from_score": scores.differs(content["overall"], figures["weighted_score"]),
    }


def _submitted_content(row: Assessment) -> dict[str, Any] | None:
    """Return the newest submission; None for a draft, also for one that is being revised by its own viewer."""
    revisions = list(row.revisions.all())
    if not revisions:
        return None
    revision = revisions[-1]
    return {
        **revision.content,
        "revision": revision.number,
        "reason": revision.reason,
        "submitted_at": _time(revision.submitted_at),
    }


def _draft_content(row: Assessment, packs: _Packs) -> dict[str, Any]:
    slugs = {scenario.pk: scenario.scenario_version.scenario.slug for scenario, _ in packs}
    return {
        **{name: getattr(row, name) for name in ("overall", "takeaways", "strengths", "concerns", "revision")},
        "reason": row.revision_reason,
        "submitted_at": None,
        "ratings": [
            {
                "scenario": slugs[rating.scenario_id],
                **{name: getattr(rating, name) for name in ("criterion", "level", "note", "from_memory")},
            }
            for rating in row.ratings.all()
        ],
    }


def _rating(
    row: SessionScenario, pack: Pack, index: int, given: dict[tuple[str, str], dict[str, Any]]
) -> dict[str, Any]:
    criterion, slug = pack.rubric[index], row.scenario_version.scenario.slug
    rating = given.get((slug, criterion.key), {"level": None, "note": "", "from_memory": False})
    level = rating["level"]
    return {
        "scenario": slug,
        "criterion": criterion.key,
        "title": criterion.title,
        "weight": criterion.weight,
        "level": level,
        "level_label": scores.LEVELS[level] if level else "Not assessed",
        "anchor": criterion.anchors[level] if level else "",
        "note": rating["note"],
        "from_memory": rating["from_memory"],
        "evidence": scores.evidence_of(level, rating["note"], rating["from_memory"]),
    }


def _timeline(session: InterviewSession, chain: list[SessionEvent]) -> dict[str, Any]:
    return {
        "events": chain[-1].seq if chain else 0,
        "head": chain[-1].hash if chain else "",
        "broken_at": events.verify_chain(session, chain),
    }


def _moment(session: InterviewSession, at: datetime | None) -> dict[str, Any] | None:
    """Return a time both ways; ``session_ms`` is None before the clock's start."""
    if at is None:
        return None
    started = clock.started_at(session)
    before = started is None or at < started
    return {"at": _time(at), "session_ms": None if before else clock.elapsed_ms(session, at)}


def _time(at: datetime | None) -> str | None:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z") if at else None
