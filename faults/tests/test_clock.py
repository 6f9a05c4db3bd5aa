"""The installation's clock: the same in every process, and never following a wall clock that is set."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faults.clock import EPOCH, InstallationClock

HOUR = 3600


class Machine:
    """A machine whose wall clock can be set, and which can be booted anew."""

    def __init__(self, path) -> None:
        self.path, self.wall, self.since_boot, self.boot = path, 1_800_000_000.0, 100.0, "first"

    def process(self):
        return InstallationClock(
            self.path,
            wall_us=lambda: round(self.wall * 1e6),
            boot_us=lambda: round(self.since_boot * 1e6),
            boot_id=lambda: self.boot,
        )

    def run(self, seconds):
        self.wall += seconds
        self.since_boot += seconds

    def reboot(self, seconds=60):
        self.wall += seconds
        self.since_boot, self.boot = 5.0, self.boot + "+"


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "clock")


def seconds(clock):
    return (clock.now() - EPOCH).total_seconds()


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_wall_clock_that_is_set_changes_nothing(machine, step):
    clock = machine.process()
    before = clock.now()
    machine.run(46)
    machine.wall += step
    assert clock.now() - before == timedelta(seconds=46)


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_process_that_starts_after_the_step_counts_alike(machine, step):
    running = machine.process()
    machine.wall += step  # while whatever watches clocks is down
    machine.run(10)
    started = machine.process()
    assert started.now() == running.now()
    machine.run(10)
    assert started.now() == running.now()


def test_after_a_reboot_it_follows_the_wall_clock(machine):
    machine.process().note()
    machine.reboot(seconds=60)
    assert seconds(machine.process()) == machine.wall


def test_after_a_reboot_it_never_goes_back(machine):
    clock = machine.process()
    machine.run(100)
    clock.note()
    before = clock.now()
    machine.wall -= HOUR
    machine.reboot()
    assert machine.process().now() >= before


def test_the_first_process_of_a_boot_decides_for_all(machine):
    machine.process().note()
    machine.reboot()
    first = machine.process()
    machine.wall += HOUR
    assert machine.process().now() == first.now()


def test_at_rest_it_follows_and_the_others_come_along(machine):
    first, second = machine.process(), machine.process()
    machine.wall += HOUR
    assert first.settle() == timedelta(hours=1)
    machine.run(1)
    assert seconds(first) == seconds(second) == machine.wall


def test_no_process_counts_by_an_anchor_that_another_has_just_moved(machine):
    first, second = machine.process(), machine.process()
    machine.wall -= HOUR
    first.settle()
    assert seconds(second) == machine.wall
    first.note()
    machine.run(0.1)
    assert seconds(second) == machine.wall


def test_daily_corrections_are_no_steps(machine):
    clock = machine.process()
    machine.wall += 1
    clock.settle()
    assert seconds(clock) == machine.wall - 1


def test_a_file_that_cannot_be_written_costs_the_memory_only(machine, caplog):
    machine.path = machine.path / "no" / "such" / "folder"
    machine.path.parents[2].write_text("in the way")
    clock = machine.process()
    machine.wall += HOUR
    machine.run(1)
    assert seconds(clock) == machine.wall - HOUR
    assert "cannot be written" in caplog.text


def test_a_damaged_file_is_made_anew(machine):
    machine.path.write_text("rubbish")
    assert seconds(machine.process()) == machine.wall
    machine.wall += HOUR
    assert seconds(machine.process()) == machine.wall - HOUR
