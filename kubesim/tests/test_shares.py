"""What the containers of one cluster may take of the machine that all clusters of a process share."""

from __future__ import annotations

import asyncio

import pytest

from kubesim.shell.errors import FileError
from kubesim.shell.share import Allowance, Room, Share
from kubesim.tests import counted_time, shell_world


def test_who_has_used_up_a_burst_waits_until_the_share_has_made_up_for_it():
    allowance = Allowance(0.25, 1.0)
    allowance.spend(0.0, 1.0)
    assert allowance.wait(0.0) == 0
    allowance.spend(0.0, 0.5)
    assert allowance.wait(0.0) == pytest.approx(2.0)
    assert allowance.wait(2.0) == 0


def test_those_of_a_cluster_wait_for_each_other_and_nobody_else_does():
    cluster, other = Allowance(0.5, 1.0), Allowance(0.5, 1.0)
    containers = [Allowance(0.2, 1.0, cluster) for _ in range(3)]
    for container in containers:
        container.spend(0.0, 0.5)
    assert [container.wait(0.0) for container in containers] == [pytest.approx(1.0)] * 3
    assert Allowance(0.2, 1.0, other).wait(0.0) == 0


def test_room_that_does_not_reach_above_is_not_taken_below():
    above = Room(10)
    first, second = Room(8, above=above), Room(8, above=above)
    assert first.take(8)
    assert not second.take(3)
    assert (first.used, second.used, above.used) == (8, 0, 8)
    assert first.take(-8)
    assert second.take(8)


def machines(count):
    share = Share()
    share.disk.limit = share.memory.limit = 4 << 20
    found = [shell_world.machine("toolbox") for _ in range(count)]
    for each in found:
        each.join(share)
    return share, found


async def test_the_containers_of_a_cluster_share_a_disk_and_give_back_what_they_had():
    share, (first, second) = machines(2)
    _, status = await shell_world.run("head -c 3M /dev/zero > /f", made=first)
    assert status == 0
    text, status = await shell_world.run("head -c 3M /dev/zero > /f", made=second)
    assert (text, status) == ("head: write error: No space left on device\n", 1)
    first.discard()
    second.discard()
    assert share.disk.used == 0
    with pytest.raises(FileError):
        first.files.charge(5 << 20)


async def test_programs_of_a_cluster_share_the_memory_that_they_really_keep():
    share, (first, second) = machines(2)
    program = 'awk \'BEGIN { s = sprintf("%60000s", ""); for (i = 0; i < 1000; i++) a[i] = s i; print i }\''
    text, _ = await shell_world.run(program, made=first)
    assert text == "awk: out of memory\n"
    assert share.memory.used == 0
    text, _ = await shell_world.run("head -c 5M /dev/zero | sort | wc -c", made=second)
    assert text == "sort: memory exhausted\n0\n"
    assert share.memory.used == 0


class Counted(Allowance):
    """One that tells when so much was spent."""

    def __init__(self, rate, burst):
        super().__init__(rate, burst)
        self.total, self.goals = 0.0, []

    def spend(self, now, seconds):
        self.total += seconds
        for goal, reached in self.goals:
            if self.total >= goal and not reached.done():
                reached.set_result((self.total, now))
        super().spend(now, seconds)

    async def reaches(self, goal):
        """Return the computing and the moment at which so many seconds were spent."""
        self.goals.append((goal, reached := asyncio.get_running_loop().create_future()))
        return await reached


async def share_of_those_that_never_rest():
    share, found = machines(20)
    share.computing = Counted(0.4, 0.1)
    for each in found:
        each.join(share)
    scripts = ["while :; do :; done", "while :; do (:) & done", "while :; do date > /f; done"]
    runs = [
        asyncio.create_task(shell_world.run(scripts[number % 3], made=made, timeout=3600))
        for number, made in enumerate(found)
    ]
    before, began = await share.computing.reaches(0.4)
    after, ended = await share.computing.reaches(before + 2.0)
    for each in found:
        each.stop()
    await asyncio.gather(*runs)
    return (after - before) / (ended - began)


def test_containers_that_never_rest_leave_most_of_the_processor_to_others(monkeypatch):
    """Time is counted, so that it does not depend on the machine. Where nobody waits, the containers take 0.74."""
    assert counted_time.run(share_of_those_that_never_rest(), monkeypatch) < 0.5
