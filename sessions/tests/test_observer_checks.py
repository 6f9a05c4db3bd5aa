"""From outcomes to rows and events: what is news, what holds, what regresses."""

from __future__ import annotations

import pytest

from faults import selectors
from faults.checks import Outcome
from faults.models import FaultRun
from sessions import services
from sessions.models import CheckState
from sessions.observer import checking

PASS, FAIL, NOT_RUN = Outcome("pass", "as wanted"), Outcome("fail", "image arm64"), Outcome("not_run", "Waits")
BROKEN = {"job-complete": FAIL, "training-output": NOT_RUN, "same-work": NOT_RUN}
REPAIRED = dict.fromkeys(BROKEN, PASS)
WELL = dict.fromkeys(["neighbour-serves", "nodes-untouched", "no-host-access"], PASS)


@pytest.fixture
def observed(live):
    """The scenario of a live session."""
    return live.scenarios.select_related("run", "scenario_version").get()


@pytest.fixture
def pack(observed):
    return selectors.bound_pack(observed.run)


@pytest.fixture
def record(observed, pack, time):
    """Write down one look, ``seconds`` after the one before."""

    def look(checks, guards=WELL, seconds=0):
        checking.record(observed, pack, {**checks, **guards}, time.advance(seconds))
        return {state.key: state for state in CheckState.objects.filter(scenario=observed)}

    return look


def news(session, kinds):
    return [kind for kind in kinds(session) if kind.startswith(("check.", "guard.", "scenario."))]


def test_the_first_look_at_a_fresh_fault_is_no_news(record, live, kinds):
    states = record(BROKEN)
    assert states["job-complete"].verdict == "fail"
    assert states["job-complete"].finding == "image arm64"
    assert [state.guard for state in states.values()] == [False] * 3 + [True] * 3
    assert news(live, kinds) == []


def test_a_repair_is_fixed_at_once_and_resolved_when_it_held(record, observed, live, kinds):
    record(BROKEN)
    record(REPAIRED, seconds=5)
    assert news(live, kinds) == ["check.changed"] * 3 + ["scenario.fixed"]
    record(REPAIRED, seconds=9)
    observed.refresh_from_db()
    assert (observed.fixed_at is None, observed.held_at) == (False, None)

    record(REPAIRED, seconds=1)
    observed.refresh_from_db()
    observed.run.refresh_from_db()
    assert (observed.held_at - observed.fixed_at).total_seconds() == 10
    assert observed.run.status == FaultRun.Status.RESOLVED
    assert news(live, kinds)[4:] == ["check.held"] * 3 + ["scenario.held"]


def test_a_repair_that_breaks_again_regresses(record, observed, live, kinds):
    record(REPAIRED)
    record(REPAIRED, seconds=10)
    record(BROKEN, seconds=5)
    observed.refresh_from_db()
    observed.run.refresh_from_db()
    assert (observed.held_at, observed.run.status) == (None, FaultRun.Status.ACTIVE)
    assert observed.fixed_at is not None
    assert news(live, kinds)[-1] == "scenario.regressed"


def test_an_error_of_ours_undoes_no_repair(record, observed):
    record(REPAIRED)
    record(REPAIRED, seconds=10)
    states = record(dict.fromkeys(BROKEN, Outcome("error", "no answer")), seconds=5)
    observed.refresh_from_db()
    assert observed.held_at is not None
    assert states["job-complete"].held_at is not None


def test_a_broken_guard_stays_marked_after_it_recovers(record, live, kinds):
    record(BROKEN)
    record(BROKEN, WELL | {"neighbour-serves": Outcome("fail", "the deployment is gone")}, seconds=1)
    states = record(BROKEN, seconds=1)
    assert states["neighbour-serves"].verdict == "pass"
    assert states["neighbour-serves"].broken_at is not None
    assert news(live, kinds) == ["guard.changed", "guard.changed"]
    event = live.events.filter(kind="guard.changed").first()
    assert event.payload["finding"] == "the deployment is gone"
    assert event.payload["verdict"] == "fail"


def test_a_look_that_ends_after_the_pause_is_not_written(record, live, ada):
    services.pause(session=live, actor=ada)
    assert record(REPAIRED) == {}


def test_only_what_changed_or_holds_or_is_old_is_written(record, pack, time):
    looked = {**BROKEN, **WELL}
    assert checking.is_worth_recording({}, pack, looked, time())
    states = record(BROKEN)
    for guard in WELL:
        states[guard].held_at = states[guard].held_at or time()
    assert not checking.is_worth_recording(states, pack, looked, time())
    assert checking.is_worth_recording(states, pack, looked | {"job-complete": Outcome("fail", "new")}, time())
    assert checking.is_worth_recording(states, pack, looked, time.advance(5))
    holding = record(REPAIRED)
    assert checking.is_worth_recording(holding, pack, {**REPAIRED, **WELL}, time.advance(1))
