"""The course of an interview in a scorecard: when scenarios began, milestones were reached, and code was applied."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from faults.packs import Milestone, Pack
from sessions import clock, events
from sessions.models import InterviewSession, SessionEvent, SessionScenario
from sessions.scorecards.times import moment, timestamp
from sessions.settled import settler


def beginning(session: InterviewSession, row: SessionScenario) -> dict[str, Any]:
    """Return when the candidate got a scenario, with its part or with the interview, and when it was skipped."""
    began = clock.started_at(session) if row.stage is None else row.stage.began_at
    return {"began": moment(session, began), "skipped": moment(session, row.stage.skipped_at if row.stage else None)}


def settling(
    session: InterviewSession, row: SessionScenario, pack: Pack, rows: Iterable[SessionScenario]
) -> dict[str, Any]:
    """Return when a later part broke the same code by its faults: from then on verdicts stand as they were."""
    by = settler(row, pack, rows) if row.is_open else None
    stage = by.stage if by else None
    return {"settled": moment(session, (stage.asked_at or stage.began_at) if stage else None)}


def milestones(session: InterviewSession, row: SessionScenario, pack: Pack) -> list[dict[str, Any]]:
    """Return the pack's milestones with when each was reached, and who ticked it."""
    return [_milestone(session, milestone, row.milestones.get(milestone.key)) for milestone in pack.milestones]


def _milestone(session: InterviewSession, milestone: Milestone, mark: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "key": milestone.key,
        "title": milestone.title,
        "par_minutes": milestone.par,
        "by_checks": bool(milestone.checks),
        "reached": moment(session, datetime.fromisoformat(mark["at"])) if mark else None,
        "by": mark["by"] if mark else "",
    }


def applies(chain: Iterable[SessionEvent]) -> list[dict[str, Any]]:
    """Return the applies of Terraform with their summary, as the live page lists them, the first one first."""
    return [_apply(event) for event in chain if event.kind == events.APPLIED]


def plans(chain: Iterable[SessionEvent]) -> list[dict[str, Any]]:
    """Return the last known plan of each root of Terraform's code in the toolbox, by its name."""
    newest = {event.payload["root"]: event for event in chain if event.kind == events.PLANNED}
    return [_plan(newest[root]) for root in sorted(newest)]


def _plan(event: SessionEvent) -> dict[str, Any]:
    kept = ("root", "serial", "known", "text", "changes", "drift")
    return {"at": timestamp(event.at), "session_ms": event.session_ms} | {key: event.payload[key] for key in kept}


def _apply(event: SessionEvent) -> dict[str, Any]:
    told = event.payload
    return {
        "at": timestamp(event.at),
        "session_ms": event.session_ms,
        "root": told["root"],
        "serial": told["serial"],
        "text": told["text"],
        "resources": told.get("resources", []),
    }
