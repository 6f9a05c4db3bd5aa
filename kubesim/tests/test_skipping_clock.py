"""A clock that goes on by itself and can be moved on. What clusters do with it is in ``test_host.py``."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from kubesim.clock import SkippingClock

REAL_S = 5.0
"""More than what a test computes; less than what it skips."""


async def test_what_is_due_on_the_way_happens_at_its_own_time():
    clock, seen = SkippingClock(), []
    began = clock.now()

    async def sleeper():
        for _ in range(3):
            await clock.sleep(20)
            seen.append(clock.now() - began)

    task = asyncio.create_task(sleeper())
    await clock.advance(50)
    assert [round(moment.total_seconds() / 20) for moment in seen] == [1, 2]
    assert timedelta(seconds=50) <= clock.now() - began < timedelta(seconds=50 + REAL_S)
    task.cancel()


async def test_it_goes_on_by_itself_as_well():
    clock, began = SkippingClock(), asyncio.get_running_loop().time()
    late, called = clock.call_later(60, lambda: None), asyncio.Event()
    clock.call_later(0.02, called.set)
    await asyncio.wait_for(called.wait(), 10)
    assert asyncio.get_running_loop().time() - began >= 0.02
    late.cancel()


async def test_what_is_put_off_again_and_again_stops_nothing():
    clock = SkippingClock()
    clock.call_later(0, lambda: clock.call_later(1, lambda: None).cancel())
    await clock.advance(3600)
    assert clock.now() > datetime.now(UTC) + timedelta(seconds=3500)


async def test_it_stops_on_the_way_once_nothing_goes_on():
    clock, due = SkippingClock(), []
    timers = [clock.call_later(seconds, lambda at=seconds: due.append(at)) for seconds in (20, 40, 60)]
    assert 35 < await clock.advance(100, goes_on=lambda: len(due) < 2) <= 40
    assert due == [20, 40]
    assert await clock.advance(100, goes_on=lambda: False) == 0
    timers[-1].cancel()
