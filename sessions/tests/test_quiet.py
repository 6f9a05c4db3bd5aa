"""Quiet time: the candidate works with nobody looking, and everybody can tell when that was."""

from __future__ import annotations

import pytest

from sessions import services
from sessions.errors import SessionError


@pytest.fixture
def quiet(live, ada):
    return services.begin_quiet(session=live, actor=ada)


def test_it_lasts_five_minutes_and_the_clock_runs_on(quiet, time, kinds):
    assert quiet.is_quiet(time.advance(299))
    assert not quiet.is_quiet(time.advance(1))
    assert quiet.state == "live"
    assert kinds(quiet)[-1] == "session.quiet_began"


def test_asking_twice_changes_nothing(quiet, time, ada, kinds):
    time.advance(60)
    again = services.begin_quiet(session=quiet, actor=ada, minutes=30)
    assert again.quiet_until == quiet.quiet_until
    assert kinds(quiet).count("session.quiet_began") == 1


def test_it_ends_by_itself_with_an_event(quiet, time, kinds):
    services.housekeep(time.advance(299))
    assert kinds(quiet)[-1] == "session.quiet_began"
    services.housekeep(time.advance(1))
    services.housekeep(time.advance(1))
    assert kinds(quiet).count("session.quiet_ended") == 1
    quiet.refresh_from_db()
    assert quiet.quiet_until is None


def test_an_interviewer_ends_it_early(quiet, ada, kinds):
    services.end_quiet(session=quiet, actor=ada)
    services.end_quiet(session=quiet, actor=ada)
    assert kinds(quiet).count("session.quiet_ended") == 1


@pytest.mark.parametrize("change", [services.pause, services.end])
def test_pausing_or_ending_the_interview_ends_it(quiet, ada, kinds, change):
    assert change(session=quiet, actor=ada).quiet_until is None
    assert "session.quiet_ended" in kinds(quiet)


def test_only_a_live_session_has_it(ready, ada):
    with pytest.raises(SessionError, match="must be live to have quiet time"):
        services.begin_quiet(session=ready, actor=ada)


@pytest.mark.parametrize("minutes", [0, 31])
def test_it_is_neither_empty_nor_endless(live, ada, minutes):
    with pytest.raises(SessionError, match="1 to 30 minutes") as caught:
        services.begin_quiet(session=live, actor=ada, minutes=minutes)
    assert caught.value.field == "minutes"
