"""The time line: numbered, chained, and never rewritten."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction

from sessions import events, services
from sessions.models import SessionEvent
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


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="PostgreSQL refuses deletion outright")
def test_a_missing_event_breaks_the_chain(live):
    raw(f"DELETE FROM {TABLE} WHERE seq = 1")
    assert events.verify_chain(live) == 1


def test_an_event_needs_the_transaction_of_its_change(live, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(transaction.get_connection(), "in_atomic_block", False)
        with pytest.raises(RuntimeError, match="transaction"):
            events.append(live, "session.praised")
