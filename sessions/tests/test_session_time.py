"""Session time and deadlines while the machine's clock is set, processes come and go, and the machine is rebooted."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faults import reconciler
from faults.clock import installation
from faults.kube.mirror import Mirror
from faults.models import FaultRun
from faults.tests.test_clock import Machine
from sessions import clock, services
from sessions.models import InterviewSession
from sessions.observer.outages import AbsenceWatch
from sessions.observer.timekeeping import is_anything_open, keep_time

HOUR = 3600
State = InterviewSession.State


@pytest.fixture
def time(tmp_path):
    """The time of a machine that somebody sets the clock of."""
    machine = Machine(tmp_path / "clock")
    with clock.use(lambda: machine.process().now()):  # every question comes from a process of its own
        yield machine


@pytest.fixture
def machine(time):
    return time


@pytest.fixture
def live(machine, ready, ada):
    InterviewSession.objects.filter(pk=ready.pk).update(prepared_at=clock.now())
    return services.start(session=ready, actor=ada)


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_session_time_follows_no_step(live, machine, step):
    machine.run(20)
    machine.wall += step
    machine.run(26)
    assert clock.elapsed_ms(live) == 46_000
    assert clock.remaining_s(live) == 3600 - 46
    assert clock.planned_end(live) - clock.now() == timedelta(seconds=3600 - 46)


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_no_session_is_released_early_or_late(live, machine, ada, step):
    services.end(session=live, actor=ada)
    machine.wall += step
    machine.run(29 * 60)
    services.housekeep(clock.now())
    live.refresh_from_db()
    assert live.release_asked_at is None
    machine.run(61)
    services.housekeep(clock.now())
    live.refresh_from_db()
    assert live.release_asked_at is not None


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_faults_keep_their_deadline_and_quiet_time_its_length(live, machine, ada, step):
    services.extend(session=live, minutes=1, actor=ada)  # moves the deadlines
    session = services.begin_quiet(session=live, actor=ada, minutes=5)
    machine.wall += step
    machine.run(60)
    assert not reconciler.overdue(clock.now()).exists()
    assert session.is_quiet(clock.now())
    machine.run(241)
    assert not session.is_quiet(clock.now())
    machine.run(3660 + 1800)
    assert reconciler.overdue(clock.now()).count() == FaultRun.objects.count()


def test_a_reboot_costs_the_candidate_nothing(live, machine):
    machine.run(60)
    AbsenceWatch(clock.now).look()
    machine.process().note()
    machine.wall -= HOUR  # the battery was empty
    machine.reboot(seconds=120)
    AbsenceWatch(clock.now).look()
    assert clock.elapsed_ms(live) >= 60_000
    assert clock.remaining_s(live) <= 3540
    machine.reboot(seconds=HOUR + 300)  # and then somebody set the clock right
    AbsenceWatch(clock.now).look()
    assert clock.remaining_s(live) in range(3530, 3545)


def test_the_deadline_in_the_cluster_is_read_by_the_clock_that_it_was_written_by(monkeypatch):
    monkeypatch.setattr("faults.clock.time.time_ns", lambda: 0)  # the janitor's machine is set back by decades
    mirror = Mirror("run-1", clock.now() + timedelta(seconds=5), (), anchor=installation().anchor)
    assert mirror.now() - clock.now() < timedelta(seconds=1)


def test_only_at_rest_a_clock_that_was_set_is_taken_over(ended, machine, monkeypatch):
    process = machine.process()
    monkeypatch.setattr("sessions.observer.timekeeping.clock.installation", lambda: process)
    machine.wall += HOUR
    keep_time()
    assert process.error() == timedelta(hours=1)
    FaultRun.objects.update(status=FaultRun.Status.REVERTED)
    assert is_anything_open()
    InterviewSession.objects.update(released_at=clock.now())
    keep_time()
    assert process.error() == timedelta()
