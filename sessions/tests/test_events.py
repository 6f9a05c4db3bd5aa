"""The time line: numbered, chained, and never rewritten."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, models, transaction

from sessions import events, services
from sessions.models import InterviewSession, SessionEvent
from sessions.models.append_only import Rewritten

pytestmark = pytest.mark.usefixtures("time")
TABLE = SessionEvent._meta.db_table


def raw(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def test_events_are_numbered_and_chained(live):
    rows = list(live.events.order_by("seq"))
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    assert [row.previous_hash for row in rows] == ["", *(row.hash for row in rows[:-1])]
    assert events.verify_chain(live) is None


def test_events_of_one_change_are_read_and_sealed_once(live, django_assert_num_queries):
    before = live.events.count()
    with transaction.atomic(), django_assert_num_queries(4):
        added = events.append_all(live, "phase.changed", [{"key": "one"}, {"key": "two"}, {"key": "three"}])
    assert list(live.events.order_by("seq"))[before:] == added
    assert [event.payload["key"] for event in added] == ["one", "two", "three"]
    live.refresh_from_db()
    assert events.verify_chain(live) is None


def test_they_tell_who_and_when_in_session_time(live, ada, time):
    time.advance(12.345)
    services.pause(session=live, actor=ada)
    event = live.events.latest("seq")
    assert (event.kind, event.actor, event.session_ms) == ("session.paused", "user:ada", 12_345)


def test_the_system_and_the_candidate_are_actors_too():
    assert events.actor_name(None) == "system"
    assert events.actor_name(events.CANDIDATE) == "candidate"


@pytest.mark.parametrize("spoil", [lambda event: event.save(), lambda event: event.delete()])
def test_the_model_refuses_to_change_an_event(live, spoil):
    with pytest.raises(Rewritten):
        spoil(live.events.first())


@pytest.mark.parametrize("method", ["update", "delete"])
def test_the_query_set_refuses_too(live, method):
    with pytest.raises(Rewritten):
        getattr(live.events.all(), method)()


def test_the_database_refuses_to_change_an_event(live):
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        raw(f"UPDATE {TABLE} SET kind = 'session.praised'")


def test_a_forged_event_breaks_the_chain(live):
    raw(f"DROP TRIGGER {TABLE}_append_only" + (f" ON {TABLE}" if connection.vendor == "postgresql" else ""))
    raw(f"UPDATE {TABLE} SET actor = 'user:mallory' WHERE seq = 2")
    assert events.verify_chain(live) == 2


def forge(live, **changes):
    """Write as somebody would who has the database and this program's source, but not the secret key."""
    raw(f"DROP TRIGGER IF EXISTS {TABLE}_append_only" + (f" ON {TABLE}" if connection.vendor == "postgresql" else ""))
    for seq, values in changes.items():
        event = live.events.get(seq=int(seq[1:]))
        for name, value in values.items():
            setattr(event, name, value)
        models.Model.save_base(event, force_update=True)


def rechain(live):
    """Compute every hash anew."""
    previous = ""
    for event in list(live.events.order_by("seq")):
        event.previous_hash = previous
        previous = event.hash = events.digest(event)
        models.Model.save_base(event, force_update=True)


def test_a_chain_that_was_computed_anew_does_not_fit_its_seal(live):
    count = live.events.count()
    forge(live, s2={"actor": "user:mallory"})
    rechain(live)
    assert events.verify_chain(live) == count + 1


def test_two_events_that_changed_places_break_the_chain(live):
    two, three = live.events.get(seq=2), live.events.get(seq=3)
    forge(live, s2={"kind": three.kind, "payload": three.payload}, s3={"kind": two.kind, "payload": two.payload})
    assert events.verify_chain(live) == 2


def test_an_event_that_was_added_behind_our_back_does_not_fit_the_seal(live):
    last = live.events.latest("seq")
    forged = SessionEvent(session=live, seq=last.seq + 1, at=last.at, session_ms=0, kind="session.praised")
    forged.previous_hash = last.hash
    forged.hash = events.digest(forged)
    forged.save(force_insert=True)
    assert events.verify_chain(live) == last.seq + 2


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="PostgreSQL refuses deletion outright")
def test_a_time_line_that_was_cut_short_does_not_fit_its_seal(live):
    count = live.events.count()
    raw(f"DELETE FROM {TABLE} WHERE seq = {count}")
    assert events.verify_chain(live) == count
    raw(f"DELETE FROM {TABLE}")
    assert events.verify_chain(live) == 1


def test_a_seal_that_was_removed_is_missed(live):
    InterviewSession.objects.update(timeline_seal="")
    assert events.verify_chain(live) == live.events.count() + 1


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="PostgreSQL refuses deletion outright")
def test_a_missing_event_breaks_the_chain(live):
    raw(f"DELETE FROM {TABLE} WHERE seq = 1")
    assert events.verify_chain(live) == 1


def test_an_event_needs_the_transaction_of_its_change(live, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(transaction.get_connection(), "in_atomic_block", False)
        with pytest.raises(RuntimeError, match="transaction"):
            events.append(live, "session.praised")
