"""Milestones of a scenario: ticked by an interviewer, or reached because their checks pass.

A milestone is a fact with a time and no judgement: all interviewers see it, unlike their ratings.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction

from faults.packs import Milestone, Pack
from sessions import clock, events, selectors
from sessions.errors import SessionError
from sessions.models import InterviewSession, SessionScenario
from sessions.services.rows import State, locked, require

OPEN = (State.LIVE, State.PAUSED)
BY_CHECKS = ""


@transaction.atomic
def mark_milestone(*, scenario: SessionScenario, key: str, reached: bool, actor: User) -> SessionScenario:
    """Tick a milestone, or take a tick back; asking for what is so already changes nothing.

    Raises SessionError naming ``key``.
    """
    session = locked(scenario.session)
    require(session, OPEN, "tick milestones")
    row = SessionScenario.objects.select_related("scenario_version", "run", "stage").get(pk=scenario.pk)
    milestone = _milestone(row, key)
    if reached == (key in row.milestones):
        return row
    if reached:
        _reach(session, row, milestone, clock.now(), actor)
    else:
        del row.milestones[key]
        events.append(session, "milestone.taken_back", actor=actor, payload=_payload(row, milestone))
    row.save(update_fields=["milestones"])
    return row


def reach_by_checks(
    session: InterviewSession, scenario: SessionScenario, pack: Pack, passing: Collection[str], now: datetime
) -> None:
    """Note the milestones whose checks all pass. The caller holds the transaction, and saves the scenario."""
    for milestone in pack.milestones:
        if milestone.checks and milestone.key not in scenario.milestones and {*milestone.checks} <= {*passing}:
            _reach(session, scenario, milestone, now, None)


def _milestone(scenario: SessionScenario, key: str) -> Milestone:
    found = {milestone.key: milestone for milestone in selectors.pack_for(scenario).milestones}.get(key)
    if found is None:
        raise SessionError(f"The scenario has no milestone {key[:60]!r}.", "key")
    if found.checks:
        raise SessionError("This milestone is reached by its checks.", "key")
    if not scenario.is_open:
        raise SessionError("Its part has not begun.", "key")
    return found


def _reach(
    session: InterviewSession, scenario: SessionScenario, milestone: Milestone, now: datetime, actor: User | None
) -> None:
    by = actor.get_username() if actor else BY_CHECKS
    ms = clock.elapsed_ms(session, now)
    scenario.milestones[milestone.key] = {"at": now.isoformat(), "session_ms": ms, "by": by}
    events.append(session, "milestone.reached", actor=actor, payload=_payload(scenario, milestone), at=now)


def _payload(scenario: SessionScenario, milestone: Milestone) -> dict[str, Any]:
    return {"scenario": str(scenario.uuid), "key": milestone.key, "title": milestone.title}
