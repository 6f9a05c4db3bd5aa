"""From outcomes to rows and events: what is news, what holds, what regresses."""

from __future__ import annotations

import pytest

from faults import checks, selectors
from faults import services as fault_services
from faults.checks import Outcome
from faults.models import FaultRun
from sessions import services
from sessions.models import CheckState
from sessions.observer import checking
from sessions.observer.changes import Cause
from sessions.panels import words

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

    def look(checks, guards=WELL, seconds=0, **more):
        checking.record(observed, pack, {**checks, **guards}, time.advance(seconds), **more)
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
    assert observed.held_at is not None  # a roll-out, perhaps
    record(BROKEN, seconds=10)
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


def test_a_guard_that_failed_for_its_hold_time_stays_marked_after_it_recovers(record, live, kinds, observed):
    gone = WELL | {"neighbour-serves": Outcome("fail", "the deployment is gone")}
    began = record(BROKEN)["neighbour-serves"].checked_at
    record(BROKEN, gone, seconds=1)
    states = record(BROKEN, gone, seconds=9)
    assert states["neighbour-serves"].broken_at is None
    record(BROKEN, gone, seconds=1)
    states = record(BROKEN, seconds=1)
    guard = states["neighbour-serves"]
    assert guard.verdict == "pass"
    assert (guard.broken_at - began).total_seconds() == 1  # when it began, not when it counted
    assert guard.broken_finding == "the deployment is gone"
    assert [kind for kind in news(live, kinds) if kind == "guard.changed"] == ["guard.changed", "guard.changed"]
    event = live.events.filter(kind="guard.changed").first()
    assert event.payload["finding"] == "the deployment is gone"
    assert (event.payload["verdict"], event.payload["from"]) == ("fail", "pass")


def test_a_guard_that_fails_shortly_is_no_news(record, live, kinds):
    record(BROKEN)
    record(BROKEN, WELL | {"neighbour-serves": Outcome("fail", "1 of 2 replicas")}, seconds=1)
    states = record(BROKEN, seconds=5)
    assert states["neighbour-serves"].broken_at is None
    assert news(live, kinds) == []


@pytest.mark.parametrize("cause", ["an error", "a gap", "a restart"])
def test_nothing_counts_in_the_grace_period_after(record, cause, live, time):
    failing = WELL | {"neighbour-serves": Outcome("fail", "0 of 2 replicas available")}
    record(BROKEN)
    if cause == "an error":
        record(BROKEN, dict.fromkeys(WELL, Outcome("error", "no answer")), seconds=57)
    counts_from = time() + checks.GRACE if cause == "a restart" else None
    for seconds in (57 if cause == "a gap" else 2, 10, 10, 5):
        states = record(BROKEN, failing, seconds=seconds, counts_from=counts_from)
    assert states["neighbour-serves"].broken_at is None
    assert record(BROKEN, seconds=1)["neighbour-serves"].failed_at is None

    for seconds in (10, 10, 10, 10):  # what still fails afterwards is not forgiven
        states = record(BROKEN, failing, seconds=seconds)
    assert states["neighbour-serves"].broken_at is not None


def test_what_changed_and_by_whom_stands_with_the_guard(record, live):
    cause = Cause("Deployment ml/inference: spec.replicas 2 -> 0", "kubectl-scale", traceable=True)
    failing = WELL | {"neighbour-serves": Outcome("fail", "0 of 2 replicas available")}
    record(BROKEN)
    record(BROKEN, failing, seconds=1, cause_of=lambda condition, now: cause)
    states = record(BROKEN, failing, seconds=10)
    guard = states["neighbour-serves"]
    assert (guard.change, guard.changed_by, guard.traceable) == (cause.change, "kubectl-scale", True)
    payload = live.events.get(kind="guard.changed").payload
    assert (payload["change"], payload["changed_by"], payload["traceable"]) == (cause.change, "kubectl-scale", True)
    assert words.cause_in_words(guard) == "Deployment ml/inference: spec.replicas 2 -> 0 (by kubectl-scale)"


def test_what_nobody_is_known_to_have_done_is_marked_so(record, live, client, ada):
    failing = WELL | {"neighbour-serves": Outcome("fail", "0 of 2 replicas available")}
    record(BROKEN)
    record(BROKEN, failing, seconds=1)
    states = record(BROKEN, failing, seconds=10)
    assert "Not traceable to the candidate." in words.cause_in_words(states["neighbour-serves"])
    client.force_login(ada)
    page = client.get(f"/sessions/{live.uuid}/scorecard/").content.decode()
    assert "Not traceable to the candidate." in page


CORDON = Cause("Node n1: spec.unschedulable nothing -> true", "kubectl-cordon", traceable=True)
CLOSED = WELL | {"nodes-untouched": Outcome("fail", "n1 (cordoned)")}


def later_scenario(session):
    """Return the scenario of a part that begins now, in the same cluster."""
    version = next(v for v in fault_services.seed_catalog() if v.scenario.slug == "gpu-requests")
    run = FaultRun.objects.create(
        cluster=session.environment.cluster, scenario_version=version, namespaces={}, status="active"
    )
    return session.scenarios.create(scenario_version=version, run=run, part=1, position=9)


@pytest.mark.parametrize("mended", [False, True])
def test_a_guard_that_was_broken_in_an_earlier_part_keeps_its_cause_in_a_later_one(record, live, time, mended):
    record(BROKEN)
    record(BROKEN, CLOSED, seconds=1, cause_of=lambda condition, now: CORDON)
    record(BROKEN, CLOSED, seconds=10)
    record(BROKEN, WELL if mended else CLOSED, seconds=10)
    later = later_scenario(live)
    pack = selectors.bound_pack(later.run)
    outcomes = {row.key: FAIL for row in pack.checks} | {row.key: PASS for row in pack.guards}
    outcomes |= {key: Outcome("fail", "seen") for key in ("nodes-untouched", "neighbour-serves")}
    for seconds in (0, 10):
        checking.record(later, pack, outcomes, time.advance(seconds))
    states = {state.key: state for state in CheckState.objects.filter(scenario=later)}
    assert states["nodes-untouched"].broken_at is not None
    told = words.cause_in_words(states["nodes-untouched"])
    assert told.startswith(
        "No change is known" if mended else "Node n1: spec.unschedulable nothing -> true (by kubectl"
    )
    assert (words.UNTRACED in told) is mended
    assert states["neighbour-serves"].change == ""  # of another namespace


def test_an_error_of_ours_makes_nobody_forget_the_cause(record):
    record(BROKEN)
    record(BROKEN, CLOSED, seconds=1, cause_of=lambda condition, now: CORDON)
    record(BROKEN, dict.fromkeys(WELL, Outcome("error", "no answer")), seconds=2)
    for seconds in (2, 15, 15, 10):
        states = record(BROKEN, CLOSED, seconds=seconds)
    assert states["nodes-untouched"].broken_at is not None
    assert states["nodes-untouched"].change == CORDON.change


def test_a_look_that_ends_after_the_pause_is_not_written(record, live, ada):
    services.pause(session=live, actor=ada)
    assert record(REPAIRED) == {}


def test_only_what_changed_or_holds_or_is_old_is_written(record, pack, time):
    looked = {**BROKEN, **WELL}
    assert checking.is_worth_recording({}, pack, looked, time())
    record(BROKEN)
    states = record(BROKEN, seconds=10)  # now its failing counts
    for guard in WELL:
        states[guard].held_at = states[guard].held_at or time()
    assert not checking.is_worth_recording(states, pack, looked, time())
    assert checking.is_worth_recording(states, pack, looked | {"job-complete": Outcome("fail", "new")}, time())
    assert checking.is_worth_recording(states, pack, looked, time.advance(5))
    holding = record(REPAIRED)
    assert checking.is_worth_recording(holding, pack, {**REPAIRED, **WELL}, time.advance(1))
