"""Somebody sets the machine's clock: a fault stays for as long as it was to stay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faults import leases, reconciler, services
from faults.checks import Held, hold
from faults.clock_steps import ClockSteps
from faults.models import Cluster, FaultRun

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Machine:
    """A time of day that can be set, and a steady clock that cannot."""

    def __init__(self):
        self.wall, self.seconds, self.runs = NOON, 0.0, 0

    def pass_(self, seconds):
        self.wall += timedelta(seconds=seconds)
        self.seconds += seconds

    def steps(self):
        return ClockSteps(lambda: self.wall, lambda: self.runs, lambda: self.seconds)


@given(st.lists(st.tuples(st.integers(-7200, 7200), st.floats(0, 900)), max_size=8))
def test_however_often_it_is_set_the_time_since_then_is_the_time_that_passed(jumps):
    machine = Machine()
    steps = machine.steps()
    steps.look()
    machine.runs = 1
    for by, seconds in jumps:
        machine.wall += timedelta(seconds=by)
        steps.look()
        machine.pass_(seconds)
        steps.look()
    lasted = machine.wall - steps.since(1) - NOON
    assert abs(lasted.total_seconds() - machine.seconds) < 30 * (len(jumps) + 1)


def test_a_run_of_after_the_step_goes_by_the_new_time():
    machine = Machine()
    steps = machine.steps()
    steps.look()
    machine.runs = 7
    machine.wall += HOUR
    steps.look()
    assert (steps.since(7), steps.since(8)) == (HOUR, timedelta())


def test_the_daily_keeping_of_time_is_no_step():
    machine = Machine()
    steps = machine.steps()
    for _ in range(100):
        steps.look()
        machine.pass_(1)
        machine.wall += timedelta(seconds=0.5)
    assert steps.since(0) == timedelta()


@pytest.mark.django_db
@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_no_fault_is_reverted_early_or_late(jump, monkeypatch):
    reverted = []
    monkeypatch.setattr(services, "revert_run", lambda *, run_id, **_: reverted.append(run_id))
    machine = Machine()
    steps = machine.steps()
    steps.look()
    run = FaultRun.objects.create(
        cluster=Cluster.objects.create(name="c", tier=Cluster.Tier.PRACTICE),
        purpose=FaultRun.Purpose.ENVIRONMENT,
        status=FaultRun.Status.ACTIVE,
        deadline=NOON + timedelta(minutes=30),
    )
    machine.runs = run.pk
    machine.pass_(60)
    machine.wall += jump
    machine.pass_(28 * 60)
    reconciler.tick(steps.look(), steps.since)
    assert reverted == []
    machine.pass_(60)
    reconciler.tick(steps.look(), steps.since)
    assert reverted == [run.pk]


@pytest.mark.django_db
def test_a_lease_of_a_wrong_clock_keeps_nobody_out():
    assert leases.acquire("observer", "dead", 6, NOON + HOUR) == 1
    assert leases.acquire("observer", "b", 6, NOON) == 2


def test_a_check_holds_from_now_on_where_the_clock_was_set_back():
    held = hold(Held(NOON), "pass", NOON - HOUR, 10)
    assert held == Held(NOON - HOUR)
    assert hold(held, "pass", NOON - HOUR + timedelta(seconds=10), 10).held_at is not None
