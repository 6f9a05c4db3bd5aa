"""The ledger of outages: what the environment cost the candidate is given back, once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faults.models import Lease
from sessions import clock, services
from sessions.models import ClockEntry, Outage
from sessions.observer.outages import ASLEEP, NOT_RUNNING, SEEN, AbsenceWatch, OutageWatch
from sessions.panels.timeline import words_for
from sessions.scorecards import as_pdf, build_scorecard


@pytest.fixture
def watch(live):
    return OutageWatch(live.pk)


def credited(session):
    return sum(entry.seconds for entry in session.clock_entries.filter(kind=ClockEntry.Kind.CREDIT))


def test_an_outage_is_credited_from_the_last_sign_of_life_to_the_next(watch, live, time, kinds):
    time.advance(60)
    last_sign = time()
    for _ in range(3):
        watch.look((last_sign, "timed out"), True, time.advance(10))
    watch.look(None, True, time.advance(27))
    watch.look(None, True, time.advance(5))
    outage = live.outages.get()
    assert (outage.began_at, outage.ended_at, outage.credited_s) == (last_sign, last_sign + timedelta(seconds=57), 57)
    assert credited(live) == 57
    assert clock.remaining_s(live) == 3600 - 122 + 57
    assert kinds(live)[-3:] == ["outage.began", "session.credited", "outage.ended"]
    assert "did not answer" in live.clock_entries.get(kind="credit").reason


def test_the_time_line_tells_why_it_began_and_how_long_it_took(watch, live, time):
    watch.look((time(), "timed out"), True, time.advance(5))
    watch.look(None, True, time.advance(52))
    told = [words_for(event) for event in live.events.filter(kind__startswith="outage.").order_by("seq")]
    assert told == ["Outage began: the cluster did not answer", "Outage ended: after 57 s"]


def test_an_observer_that_takes_over_closes_the_outage_that_the_other_opened(watch, live, time):
    watch.look((time(), "timed out"), True, time.advance(5))
    other = OutageWatch(live.pk)
    other.look((time(), "timed out"), True, time.advance(5))
    other.look(None, False, time.advance(5))  # it has not seen the environment yet
    assert live.outages.get().ended_at is None
    other.look(None, True, time.advance(5))
    watch.look(None, True, time())
    assert (live.outages.get().credited_s, credited(live)) == (20, 20)


def test_a_pause_within_an_outage_is_not_credited(watch, live, ada, time):
    watch.look((time(), "timed out"), True, time.advance(10))
    services.pause(session=live, actor=ada)
    time.advance(600)
    services.resume(session=live, actor=ada)
    watch.look(None, True, time.advance(10))
    assert live.outages.get().credited_s == 20


def test_an_outage_that_outlasts_the_interview_ends_with_it(watch, live, ada, time):
    watch.look((time(), "timed out"), True, time.advance(10))
    services.end(session=live, actor=ada)
    watch.look(None, True, time.advance(60))
    outage = live.outages.get()
    assert (outage.ended_at - outage.began_at, outage.credited_s) == (timedelta(seconds=10), 0)


def test_a_cluster_that_never_answers_again_leaves_nothing_open_in_the_ledger(watch, live, ada, time, kinds, client):
    watch.look((time(), "timed out"), True, time.advance(10))
    services.end(session=live, actor=ada)
    client.force_login(ada)
    page = client.get(f"/sessions/{live.uuid}/").content.decode()
    assert "to now" not in page
    assert "to the end" in page
    ended_at = time()
    time.advance(600)
    services.release(session=live, actor=ada)
    outage = live.outages.get()
    assert (outage.ended_at, outage.credited_s) == (ended_at, 0)
    assert kinds(live)[-2:] == ["outage.ended", "release.asked"]
    watch.look(None, True, time.advance(60))
    assert kinds(live)[-1] == "release.asked"


def test_a_hiccup_is_entered_and_costs_nobody_anything(watch, live, time):
    watch.look((time(), "timed out"), True, time.advance(1))
    watch.look(None, True, time.advance(1))
    assert (live.outages.get().credited_s, credited(live)) == (0, 0)


def test_a_session_that_does_not_run_has_no_outages(ready, time):
    OutageWatch(ready.pk).look((time(), "timed out"), True, time())
    assert not Outage.objects.exists()


def test_the_sleep_of_the_machine_is_credited(live, time):
    clocks = {"steady": 100.0, "awake": 100.0}
    absence = AbsenceWatch(time, lambda: clocks["steady"], lambda: clocks["awake"])
    absence.look()
    time.advance(3600)
    clocks["steady"] += 3600
    clocks["awake"] += 1
    absence.look()
    outage = live.outages.get()
    assert (outage.reason, outage.credited_s) == (ASLEEP, 3600)


def test_the_time_in_which_nothing_ran_is_credited(live, time):
    AbsenceWatch(time).look()
    time.advance(120)
    AbsenceWatch(time).look()  # another process
    outage = live.outages.get()
    assert (outage.reason, outage.credited_s) == (NOT_RUNNING, 120)
    assert Lease.objects.get(name=SEEN).until == time()


def test_a_trace_is_left_seldom_while_nothing_is_open(time, db):
    absence = AbsenceWatch(time)
    absence.look(is_idle=True)
    first = time()
    time.advance(20)
    absence.look(is_idle=True)
    assert Lease.objects.get(name=SEEN).until == first
    absence.look()
    assert Lease.objects.get(name=SEEN).until == time()


def test_an_observer_that_was_stopped_alone_credits_nothing(live, time):
    absence = AbsenceWatch(time, lambda: time().timestamp(), lambda: time().timestamp())
    absence.look()
    time.advance(60)
    absence.look()
    assert not Outage.objects.exists()


def test_it_stands_on_page_and_scorecard(watch, live, time, client, ada):
    watch.look((time(), "timed out"), True, time.advance(10))
    watch.look(None, True, time.advance(10))
    client.force_login(ada)
    assert "20 s credited" in client.get(f"/sessions/{live.uuid}/").content.decode()
    assert "20 s credited" in client.get(f"/sessions/{live.uuid}/scorecard/").content.decode()
    live.refresh_from_db()
    card = build_scorecard(session=live, viewer=ada)
    assert [(row["credited_s"], row["began"]["session_ms"]) for row in card["session"]["outages"]] == [(20, 0)]
    assert as_pdf(card).startswith(b"%PDF")
