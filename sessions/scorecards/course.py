"""The course of a scenario in a scorecard: when it began, and when its milestones were reached."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from faults.packs import Milestone, Pack
from sessions import clock
from sessions.models import InterviewSession, SessionScenario
from sessions.scorecards.times import moment


def beginning(session: InterviewSession, row: SessionScenario) -> dict[str, Any]:
    """Return when the candidate got a scenario, with its part or with the interview, and when it was skipped."""
    began = clock.started_at(session) if row.stage is None else row.stage.began_at
    return {"began": moment(session, began), "skipped": moment(session, row.stage.skipped_at if row.stage else None)}


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
