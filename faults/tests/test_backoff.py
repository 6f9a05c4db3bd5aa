"""The pauses between tries."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faults.backoff import BASE_S, MAX_PAUSE_S, next_pause, parse_retry_after


def test_pauses_grow_and_are_bounded():
    pauses = [next_pause()]
    for _ in range(60):
        pauses.append(next_pause(pauses[-1]))
    assert pauses[0] <= BASE_S * 1.5
    assert max(pauses) > 10 * BASE_S
    assert max(pauses) <= MAX_PAUSE_S


def test_callers_that_failed_together_do_not_come_back_together():
    assert len({round(next_pause(8.0), 3) for _ in range(50)}) > 40


def test_the_server_is_given_the_time_that_it_asked_for():
    assert next_pause(0.0, 12.0) >= 12.0
    assert next_pause(0.0, 10**9) <= 300.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("", None),
        ("soon", None),
        ("-1", None),
        ("²", None),
        ("Sun, 22 Nov 2026 12:00:10 GMT", 10.0),
        ("Sun, 22 Nov 2026 11:00:00 GMT", 0.0),
    ],
)
def test_retry_after_is_a_number_or_a_date(value, seconds):
    assert parse_retry_after(value, datetime(2026, 11, 22, 12, tzinfo=UTC)) == seconds
