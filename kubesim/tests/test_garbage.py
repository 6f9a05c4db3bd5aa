"""Garbage in cycles: dropped clusters leave nothing behind."""

import gc

import pytest

from kubesim import garbage
from kubesim.clock import ManualClock
from kubesim.garbage import HOUR_S, MANY, MINUTE_S, Sweeper


@pytest.fixture
def sweeps(monkeypatch):
    found = []
    monkeypatch.setattr(garbage, "sweep", lambda: found.append(1))
    return found


async def test_it_sweeps_every_hour(sweeps):
    clock = ManualClock()
    sweeper = Sweeper(clock)
    await clock.advance(HOUR_S * 3)
    assert len(sweeps) == 3
    sweeper.stop()
    await clock.advance(HOUR_S)
    assert len(sweeps) == 3


async def test_it_sweeps_a_minute_after_a_drop_and_at_once_after_many(sweeps):
    clock = ManualClock()
    sweeper = Sweeper(clock)
    sweeper.dropped()
    assert not sweeps
    await clock.advance(MINUTE_S)
    assert len(sweeps) == 1
    for _ in range(MANY):
        sweeper.dropped()
    assert len(sweeps) == 2
    await clock.advance(MINUTE_S)
    assert len(sweeps) == 2


def test_what_is_set_aside_is_found_by_a_sweep():
    found = []

    class Knot:
        def __del__(self):
            found.append(1)

    def tie():
        knot = Knot()
        knot.itself = knot

    before = gc.get_threshold()
    garbage.spare_the_old()
    try:
        tie()
        gc.freeze()
        gc.collect()
        assert not found
        garbage.sweep()
        assert found
        assert gc.get_freeze_count()
    finally:
        gc.callbacks.remove(garbage._set_aside)
        gc.set_threshold(*before)
        gc.unfreeze()
