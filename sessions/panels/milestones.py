"""The panel of milestones: how far the candidate has come, beside the time that a good one needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from faults.packs import Milestone
from sessions import part_times
from sessions.models import InterviewSession, SessionScenario
from sessions.panels.subject import Context, Subject, clock_of, open_scenarios_of, scenarios_of, staged_parts_of
from sessions.selectors import pack_for

_STATES = InterviewSession.State
MINUTE_MS = part_times.MINUTE_MS


@dataclass(frozen=True, slots=True)
class MilestoneRow:
    """A milestone with the session time by which a good candidate is there, and when this one was.

    ``state`` is reached, late (reached after par), overdue or open.
    """

    id: str
    milestone: Milestone
    state: str
    reached_ms: int | None
    due_ms: int | None

    @property
    def is_reached(self) -> bool:
        """Whether the candidate has been there."""
        return self.reached_ms is not None


def milestones(subject: Subject) -> Context:
    """Return the milestones of every scenario that the candidate has to work on."""
    session = subject.session
    if session.state not in (_STATES.LIVE, _STATES.PAUSED):
        return {"groups": []}
    begins = part_times.begins_ms(session, scenarios_of(session), staged_parts_of(session))
    elapsed_ms = clock_of(session, subject.now)["elapsed_ms"]
    found = [_group(row, begins.get(row.pk), elapsed_ms) for row in open_scenarios_of(session)]
    groups = [group for group in found if group["rows"]]
    for group in groups:
        group["is_next"] = group is next((one for one in groups if one["reached"] < len(one["rows"])), None)
    return {"groups": groups}


def _group(scenario: SessionScenario, begin_ms: int | None, elapsed_ms: int) -> dict[str, Any]:
    pack = pack_for(scenario)
    rows = [_row(scenario, milestone, begin_ms, elapsed_ms) for milestone in pack.milestones]
    reached = sum(row.is_reached for row in rows)
    return {"scenario": scenario, "title": pack.title, "par": pack.par, "rows": rows, "reached": reached}


def _row(scenario: SessionScenario, milestone: Milestone, begin_ms: int | None, elapsed_ms: int) -> MilestoneRow:
    mark = scenario.milestones.get(milestone.key)
    reached_ms = int(mark["session_ms"]) if mark else None
    due_ms = None if begin_ms is None else begin_ms + milestone.par * MINUTE_MS
    is_past = due_ms is not None and (elapsed_ms if reached_ms is None else reached_ms) > due_ms
    state = ("late" if is_past else "reached") if reached_ms is not None else ("overdue" if is_past else "open")
    return MilestoneRow(f"m{scenario.pk}-{milestone.key}", milestone, state, reached_ms, due_ms)
