"""Garbage in cycles is found within an hour, and what was there before is left alone."""

import gc

from kubesim import garbage
from kubesim.clock import ManualClock
from kubesim.garbage import HOUR_S, Sweeper


class Knot:
    """An object that only a look for cycles can find."""

    def __init__(self, found):
        self.found = found
        self.itself = self

    def __del__(self):
        self.found.append(1)


async def test_cycles_are_found_every_hour_until_it_stops():
    found, clock = [], ManualClock()
    sweeper = Sweeper(clock)
    Knot(found)
    await clock.advance(HOUR_S)
    assert len(found) == 1
    sweeper.stop()
    Knot(found)
    await clock.advance(HOUR_S)
    assert len(found) == 1
    gc.collect()


def test_what_was_there_before_is_left_alone():
    before, found = gc.get_threshold(), []
    Knot(found)
    try:
        garbage.spare_the_old()
        gc.collect()
        assert not found
        Knot(found)
        gc.collect()
        assert len(found) == 1
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
        gc.collect()
        gc.freeze()  # as the suite has it
