"""Turns outcomes into rows and events: verdicts, holding, fixed, held, guards broken."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from faults import checks
from faults.checks import Check, Held, Outcome
from faults.models import FaultRun
from faults.packs import Pack
from sessions import events
from sessions.models import CheckState, InterviewSession, SessionScenario

REFRESH = timedelta(seconds=5)  # how old "checked at" may become while nothing changes
Outcomes = Mapping[str, Outcome]


def look(pack: Pack, reader: checks.Reader) -> dict[str, Outcome]:
    """Evaluate every check and guard of a pack, once."""
    return checks.evaluate_all((*pack.checks, *pack.guards), reader)


def is_worth_recording(states: Mapping[str, CheckState], pack: Pack, outcomes: Outcomes, now: datetime) -> bool:
    """Whether something changed, holds or is about to, or the last look was too long ago to be called current."""
    rows = (*pack.checks, *pack.guards)
    return any(_differs(states.get(check.key), check, outcomes[check.key], now) for check in rows)


def record(scenario: SessionScenario, pack: Pack, outcomes: Outcomes, now: datetime) -> None:
    """Write the outcomes down with their events, unless the session stopped running meanwhile."""
    with transaction.atomic():
        session = InterviewSession.objects.select_for_update().get(pk=scenario.session_id)
        if session.state != InterviewSession.State.LIVE:
            return
        states = {state.key: state for state in CheckState.objects.filter(scenario=scenario)}
        guards = {guard.key for guard in pack.guards}
        for check in (*pack.checks, *pack.guards):
            state = states.setdefault(
                check.key, CheckState(scenario=scenario, key=check.key, guard=check.key in guards)
            )
            _record_one(session, scenario, state, check, outcomes[check.key], now)
        _record_scenario(session, scenario, [states[check.key] for check in pack.checks], now)


def _differs(state: CheckState | None, check: Check, outcome: Outcome, now: datetime) -> bool:
    if state is None or state.checked_at is None or abs(now - state.checked_at) >= REFRESH:
        return True
    is_holding = state.passing_since is not None and state.held_at is None
    return is_holding or (state.verdict, state.finding) != (outcome.verdict, outcome.finding)


def _record_one(
    session: InterviewSession,
    scenario: SessionScenario,
    state: CheckState,
    check: Check,
    outcome: Outcome,
    now: datetime,
) -> None:
    before, had_held = state.verdict, state.held_at is not None
    held = checks.hold(Held(state.passing_since, state.held_at), outcome.verdict, now, check.hold)
    state.verdict, state.finding, state.checked_at = outcome.verdict, outcome.finding, now
    state.passing_since, state.held_at = held.passing_since, held.held_at
    if state.guard and outcome.verdict == "fail":
        state.broken_at = state.broken_at or now
    state.save()
    payload = {"scenario": str(scenario.uuid), "key": check.key, "title": check.title}
    if before != outcome.verdict and not _is_expected(before, outcome, guard=state.guard):
        kind = "guard.changed" if state.guard else "check.changed"
        payload |= {"from": before, "verdict": outcome.verdict, "finding": outcome.finding}
        events.append(session, kind, payload=payload, at=now)
    elif held.held_at and not had_held and not state.guard:
        events.append(session, "check.held", payload=payload | {"seconds": check.hold}, at=now)


def _is_expected(before: str, outcome: Outcome, *, guard: bool) -> bool:
    """Whether a first look found what it must: a check that fails, a guard that passes. That is no news."""
    return before == CheckState.Verdict.NOT_RUN and outcome.verdict in ("not_run", "pass" if guard else "fail")


def _record_scenario(
    session: InterviewSession, scenario: SessionScenario, states: list[CheckState], now: datetime
) -> None:
    scenario.refresh_from_db(fields=["fixed_at", "held_at"])
    payload: dict[str, Any] = {"scenario": str(scenario.uuid), "title": scenario.scenario_version.title}
    passing = all(state.verdict == CheckState.Verdict.PASS for state in states)
    held = passing and all(state.held_at for state in states)
    if passing and scenario.fixed_at is None:
        scenario.fixed_at = now
        events.append(session, "scenario.fixed", payload=payload, at=now)
    if held and scenario.held_at is None:
        scenario.held_at = now
        _move_run(scenario, FaultRun.Status.ACTIVE, FaultRun.Status.RESOLVED)
        events.append(session, "scenario.held", payload=payload, at=now)
    elif scenario.held_at and any(state.verdict == CheckState.Verdict.FAIL for state in states):
        scenario.held_at = None
        _move_run(scenario, FaultRun.Status.RESOLVED, FaultRun.Status.ACTIVE)
        events.append(session, "scenario.regressed", payload=payload, at=now)
    scenario.save(update_fields=["fixed_at", "held_at"])


def _move_run(scenario: SessionScenario, old: FaultRun.Status, new: FaultRun.Status) -> None:
    assert scenario.run_id is not None  # only what was injected is checked
    FaultRun.objects.filter(pk=scenario.run_id, status=old).update(status=new)
