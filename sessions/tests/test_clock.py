"""Session time is the sum of the intervals in which the clock ran."""

from __future__ import annotations

import contextlib
import os
import threading
from datetime import timedelta

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessions import clock, services
from sessions.errors import SessionError
from sessions.observer.loop import Observer


def test_it_stands_at_zero_before_the_start(ready, time):
    time.advance(500)
    assert clock.elapsed_ms(ready) == 0
    assert clock.remaining_s(ready) == 3600
    assert not clock.is_running(ready)


def test_it_counts_only_what_ran(live, ada, time):
    time.advance(100.5)
    services.pause(session=live, actor=ada)
    time.advance(1000)
    services.resume(session=live, actor=ada)
    time.advance(50)

    assert clock.elapsed_ms(live) == 150_500
    assert clock.is_running(live)


def test_extensions_and_credits_lengthen_the_budget_only(live, ada, time):
    time.advance(60)
    services.extend(session=live, minutes=5, actor=ada)
    services.credit(session=live, seconds=30, reason="The cluster was away.")

    assert clock.elapsed_ms(live) == 60_000
    assert clock.remaining_s(live) == 3600 - 60 + 300 + 30


def test_the_planned_end_stays_while_running_and_moves_while_paused(live, ada, time):
    start = time.at
    assert clock.planned_end(live) == start + timedelta(hours=1)
    time.advance(600)
    assert clock.planned_end(live) == start + timedelta(hours=1)
    services.pause(session=live, actor=ada)
    time.advance(600)
    assert clock.planned_end(live) == start + timedelta(hours=1, minutes=10)


def test_the_end_stops_it(ended, time):
    at_the_end = clock.elapsed_ms(ended)
    time.advance(1000)
    assert clock.elapsed_ms(ended) == at_the_end
    assert clock.planned_end(ended) == ended.ended_at


def test_an_overrun_shows_as_negative(live, time):
    time.advance(3700)
    assert clock.remaining_s(live) == -100


def test_a_wall_clock_set_back_never_makes_it_run_backwards(live, time):
    time.advance(-500)
    assert clock.elapsed_ms(live) == 0


def test_a_deadline_is_never_later_than_eight_hours_after_preparing(live, time):
    time.advance(9 * 3600)
    assert clock.fault_deadline(live) == live.prepared_at + timedelta(minutes=90)
    live.minutes = 450
    live.prepared_at -= timedelta(hours=1)
    assert clock.fault_deadline(live) == live.prepared_at + timedelta(hours=8)


@pytest.mark.parametrize(
    ("seconds", "reason", "field"), [(0, "x", "seconds"), (9999, "x", "seconds"), (5, " ", "reason")]
)
def test_a_credit_needs_a_sensible_amount_and_a_reason(live, seconds, reason, field):
    with pytest.raises(SessionError) as caught:
        services.credit(session=live, seconds=seconds, reason=reason)
    assert caught.value.field == field


def test_the_session_time_of_a_past_moment_leaves_out_what_came_later(live, time, ada):
    time.advance(60)
    then = clock.now()
    services.pause(session=live, actor=ada)
    time.advance(600)
    services.resume(session=live, actor=ada)
    time.advance(30)

    assert clock.elapsed_ms(live, then) == 60_000
    assert clock.elapsed_ms(live) == 90_000


EXAMPLES = 100 if "TORTURE_ROUNDS" in os.environ else 15
JUMPS = st.lists(
    st.tuples(st.sampled_from(["pause", "resume", "extend", "none"]), st.integers(-3600, 3600)), max_size=8
)


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JUMPS)
def test_wherever_the_clock_is_set_to_session_time_is_never_negative(ready, ada, time, steps):
    with transaction.atomic():
        session = services.start(session=ready, actor=ada)
        for action, seconds in steps:
            time.advance(seconds)
            with contextlib.suppress(SessionError):
                if action == "extend":
                    services.extend(session=session, minutes=5, actor=ada)
                elif action != "none":
                    getattr(services, action)(session=session, actor=ada)
            session.refresh_from_db()
            assert clock.elapsed_ms(session) >= 0
            assert clock.fault_deadline(session) <= session.prepared_at + clock.LONGEST_FAULT
        session = services.end(session=session, actor=ada)
        assert clock.elapsed_ms(session) >= 0
        assert min(session.events.values_list("session_ms", flat=True)) >= 0
        transaction.set_rollback(True)


def test_an_observer_whose_clock_is_set_back_goes_on(time, db):
    observer = Observer(threading.Event(), time)
    assert observer._is_due("poll", timedelta(seconds=2), time())
    assert not observer._is_due("poll", timedelta(seconds=2), time.advance(1))
    assert observer._is_due("poll", timedelta(seconds=2), time.advance(-3600))
    assert not observer._is_due("poll", timedelta(seconds=2), time.advance(1))
