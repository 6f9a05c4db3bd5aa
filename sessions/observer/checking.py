"""Turns outcomes into rows and events: verdicts, holding, fixed, held, guards broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from faults import checks, selectors
from faults.checks import Check, Condition, Failure, Held, ObjectRead, Outcome
from faults.models import FaultRun
from faults.packs import Pack
from sessions import events
from sessions.models import CheckState, InterviewSession, SessionScenario
from sessions.observer.changes import Cause
from sessions.services.milestones import reach_by_checks
from sessions.settled import is_settled

REFRESH = timedelta(seconds=5)  # how old "checked at" may become while nothing changes
Outcomes = Mapping[str, Outcome]
CauseOf = Callable[[Condition, datetime], Cause]


def unexplained(condition: Condition, now: datetime) -> Cause:
    """Return no cause, for callers that follow no changes."""
    return Cause()


def look(pack: Pack, reader: checks.Reader) -> dict[str, Outcome]:
    """Evaluate every check and guard of a pack, once."""
    return checks.evaluate_all((*pack.checks, *pack.guards), reader)


def is_worth_recording(states: Mapping[str, CheckState], pack: Pack, outcomes: Outcomes, now: datetime) -> bool:
    """Whether something changed, holds or is about to, or the last look was too long ago to be called current."""
    rows = (*pack.checks, *pack.guards)
    return any(_differs(states.get(check.key), check, outcomes[check.key], now) for check in rows)


def record(
    scenario: SessionScenario,
    pack: Pack,
    outcomes: Outcomes,
    now: datetime,
    *,
    cause_of: CauseOf = unexplained,
    counts_from: datetime | None = None,
) -> None:
    """Write the outcomes down with their events, unless the session stopped running or the scenario was settled.

    ``cause_of`` explains a failure. Before ``counts_from`` nothing counts as failed: the observer has just started.
    """
    with transaction.atomic():
        session = InterviewSession.objects.select_for_update().get(pk=scenario.session_id)
        if session.state != InterviewSession.State.LIVE or is_settled(scenario, pack):
            return
        states = {state.key: state for state in CheckState.objects.filter(scenario=scenario)}
        guards = {guard.key for guard in pack.guards}
        look = _Look(session, scenario, now, cause_of, counts_from)
        for check in (*pack.checks, *pack.guards):
            state = states.setdefault(
                check.key, CheckState(scenario=scenario, key=check.key, guard=check.key in guards)
            )
            _record_one(look, state, check, outcomes[check.key])
        _record_scenario(session, scenario, pack, [states[check.key] for check in pack.checks], now)


@dataclass(slots=True)
class _Look:
    """One look at one scenario. ``failure_counts``: an earlier check of it has failed for long enough."""

    session: InterviewSession
    scenario: SessionScenario
    now: datetime
    cause_of: CauseOf
    counts_from: datetime | None
    failure_counts: bool = False


def _differs(state: CheckState | None, check: Check, outcome: Outcome, now: datetime) -> bool:
    if state is None or state.checked_at is None or abs(now - state.checked_at) >= REFRESH:
        return True
    is_holding = state.passing_since is not None and state.held_at is None
    may_soon_count = state.verdict == CheckState.Verdict.FAIL and state.failed_at is None
    return is_holding or may_soon_count or (state.verdict, state.finding) != (outcome.verdict, outcome.finding)


def _record_one(look: _Look, state: CheckState, check: Check, outcome: Outcome) -> None:
    had_held = state.held_at is not None
    failure = _judge(look, state, check, outcome)
    held = checks.hold(Held(state.passing_since, state.held_at), outcome.verdict, look.now, check.hold)
    undoes = failure.failed_at is not None or look.failure_counts
    if outcome.verdict in ("fail", "not_run") and not undoes:
        held = Held(None, state.held_at)  # it does not count yet, so it undoes nothing
    _note_cause(look, state, check, outcome)
    newly_counted = failure.failed_at is not None and state.failed_at is None
    state.verdict, state.finding, state.checked_at = outcome.verdict, outcome.finding, look.now
    state.passing_since, state.held_at = held.passing_since, held.held_at
    state.failing_since, state.failed_at = failure.failing_since, failure.failed_at
    state.grace_until = failure.grace_until
    look.failure_counts |= failure.failed_at is not None and not state.guard
    if state.guard and newly_counted and state.broken_at is None:
        state.broken_at, state.broken_finding = failure.failing_since, outcome.finding
    _tell(look, state, check, outcome, newly_held=held.held_at is not None and not had_held)
    state.save()


def _judge(look: _Look, state: CheckState, check: Check, outcome: Outcome) -> Failure:
    grace = [until for until in (state.grace_until, look.counts_from) if until is not None]
    before = Failure(state.failing_since, state.failed_at, max(grace, default=None))
    return checks.judge_failure(before, outcome.verdict, look.now, last_look=state.checked_at, hold_s=check.hold)


def _note_cause(look: _Look, state: CheckState, check: Check, outcome: Outcome) -> None:
    """Look for the cause when a check begins to fail; what broke a guard stays with it.

    A fault's checks fail from the first look on. A guard that does was broken before its part began.
    """
    if outcome.verdict != "fail" or state.verdict == CheckState.Verdict.FAIL or state.broken_at is not None:
        return
    if state.verdict == CheckState.Verdict.NOT_RUN:
        cause = _cause_in_earlier_parts(look, check) if state.guard else Cause()
    else:
        cause = look.cause_of(check.condition, look.now)
    if cause.change or state.verdict != CheckState.Verdict.ERROR:  # an error of ours makes nobody forget
        state.change, state.changed_by, state.traceable = cause.change, cause.changed_by[:120], cause.traceable


def _cause_in_earlier_parts(look: _Look, check: Check) -> Cause:
    """Return what broke a guard of another scenario that looks at the same kinds of objects, and is broken still."""
    kinds = _kinds_of(check)
    broken = CheckState.objects.filter(
        scenario__session=look.session, guard=True, broken_at__isnull=False, verdict=CheckState.Verdict.FAIL
    )
    for other in broken.exclude(scenario=look.scenario).select_related("scenario__run").order_by("-broken_at"):
        if other.change and kinds & _kinds_of_guard(other):
            return Cause(other.change, other.changed_by, other.traceable)
    return Cause()


def _kinds_of_guard(state: CheckState) -> set[tuple[str, str, str]]:
    assert state.scenario.run is not None  # only what was injected is checked
    guards = selectors.bound_pack(state.scenario.run).guards
    return {kind for guard in guards if guard.key == state.key for kind in _kinds_of(guard)}


def _kinds_of(check: Check) -> set[tuple[str, str, str]]:
    reads = (read for read in check.condition.reads.values() if isinstance(read, ObjectRead))
    return {(read.api_version, read.kind, read.namespace) for read in reads}


def _tell(look: _Look, state: CheckState, check: Check, outcome: Outcome, *, newly_held: bool) -> None:
    """Write the event of a verdict that is new and counts."""
    payload = {"scenario": str(look.scenario.uuid), "key": check.key, "title": check.title}
    counts = outcome.verdict != "fail" or state.failed_at is not None
    told = state.told
    if counts:
        state.told = outcome.verdict
    if counts and told != outcome.verdict and not _is_expected(told, outcome, guard=state.guard):
        kind = "guard.changed" if state.guard else "check.changed"
        payload |= {"from": told, "verdict": outcome.verdict, "finding": outcome.finding}
        payload |= _cause_in_words(state) if outcome.verdict == "fail" else {}
        events.append(look.session, kind, payload=payload, at=look.now)
    elif newly_held and not state.guard:
        events.append(look.session, "check.held", payload=payload | {"seconds": check.hold}, at=look.now)


def _cause_in_words(state: CheckState) -> dict[str, Any]:
    since = state.failing_since.isoformat() if state.failing_since else None
    cause = {"change": state.change, "changed_by": state.changed_by, "traceable": state.traceable}
    return {"since": since, **cause}


def _is_expected(told: str, outcome: Outcome, *, guard: bool) -> bool:
    """Whether a first look found what it must: a check that fails, a guard that passes. That is no news."""
    return told == CheckState.Verdict.NOT_RUN and outcome.verdict in ("not_run", "pass" if guard else "fail")


def _record_scenario(
    session: InterviewSession, scenario: SessionScenario, pack: Pack, states: list[CheckState], now: datetime
) -> None:
    scenario.refresh_from_db(fields=["fixed_at", "held_at", "milestones"])
    payload: dict[str, Any] = {"scenario": str(scenario.uuid), "title": scenario.scenario_version.title}
    passed = [state.key for state in states if state.verdict == CheckState.Verdict.PASS]
    reach_by_checks(session, scenario, pack, passed, now)
    passing = len(passed) == len(states)
    held = passing and all(state.held_at for state in states)
    if passing and scenario.fixed_at is None:
        scenario.fixed_at = now
        events.append(session, "scenario.fixed", payload=payload, at=now)
    if held and scenario.held_at is None:
        scenario.held_at = now
        _move_run(scenario, FaultRun.Status.ACTIVE, FaultRun.Status.RESOLVED)
        events.append(session, "scenario.held", payload=payload, at=now)
    elif scenario.held_at and any(state.failed_at for state in states):
        scenario.held_at = None
        _move_run(scenario, FaultRun.Status.RESOLVED, FaultRun.Status.ACTIVE)
        events.append(session, "scenario.regressed", payload=payload, at=now)
    scenario.save(update_fields=["fixed_at", "held_at", "milestones"])


def _move_run(scenario: SessionScenario, old: FaultRun.Status, new: FaultRun.Status) -> None:
    assert scenario.run_id is not None  # only what was injected is checked
    FaultRun.objects.filter(pk=scenario.run_id, status=old).update(status=new)
