"""Writes to SQLite take turns within a process, and nobody can keep the turn for good."""

from __future__ import annotations

import gc
import sqlite3
import threading

import pytest

from interview_site.sqlite_turns import TurnConnection

INSERT = "INSERT INTO words VALUES ('late')"


@pytest.fixture
def connect(tmp_path):
    """Return what opens a connection, as Django does; they are closed in the end."""
    made = []

    def open_one() -> TurnConnection:
        connection = sqlite3.connect(
            tmp_path / "db.sqlite3",
            factory=TurnConnection,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("CREATE TABLE IF NOT EXISTS words (word TEXT)")
        made.append(connection)
        return connection

    yield open_one
    for connection in made:
        connection.close()


def words(connection):
    return [word for (word,) in connection.cursor().execute("SELECT word FROM words").fetchall()]


def test_a_write_does_not_ask_sqlite_for_its_lock_before_it_is_its_turn(connect):
    first, second = connect(), connect()
    first.cursor().execute("BEGIN IMMEDIATE")
    statements, waits = [], threading.Event()

    def trace(statement: str) -> None:
        statements.append(statement)
        waits.set()

    second.set_trace_callback(trace)
    writer = threading.Thread(target=lambda: second.cursor().execute(INSERT))
    writer.start()
    waits.wait()
    before = list(statements)
    first.commit()
    writer.join()
    assert before == ["PRAGMA busy_timeout"]
    assert INSERT in statements
    assert words(first) == ["late"]


def test_a_write_waits_for_its_turn_no_longer_than_for_sqlite(connect):
    first, second = connect(), connect()
    first.cursor().execute("BEGIN IMMEDIATE")
    second.execute("PRAGMA busy_timeout = 1")
    with pytest.raises(sqlite3.OperationalError, match="database is locked"):
        second.cursor().execute(INSERT)
    first.rollback()
    second.cursor().execute(INSERT)
    assert words(first) == ["late"]


def test_reading_needs_no_turn(connect):
    first, second = connect(), connect()
    first.cursor().execute("PRAGMA journal_mode = WAL")
    first.cursor().execute("BEGIN IMMEDIATE")
    second.execute("PRAGMA busy_timeout = 0")
    assert words(second) == []
    assert second.cursor().execute("PRAGMA data_version").fetchone()


@pytest.mark.parametrize("end", ["commit", "rollback", "close"])
def test_the_end_of_a_transaction_gives_the_turn_back(connect, end):
    first, second = connect(), connect()
    first.cursor().execute("BEGIN IMMEDIATE")
    getattr(first, end)()
    second.execute("PRAGMA busy_timeout = 0")
    second.cursor().execute(INSERT)


def test_a_connection_that_nobody_closed_gives_the_turn_back(tmp_path, connect):
    lost = sqlite3.connect(tmp_path / "db.sqlite3", factory=TurnConnection, isolation_level=None)
    lost.cursor().execute("BEGIN IMMEDIATE")
    del lost
    gc.collect()
    second = connect()
    second.execute("PRAGMA busy_timeout = 0")
    second.cursor().execute(INSERT)
    assert words(second) == ["late"]


def test_a_statement_that_fails_keeps_no_turn(connect):
    first, second = connect(), connect()
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        first.cursor().execute("INSERT INTO numbers VALUES (1)")
    second.execute("PRAGMA busy_timeout = 0")
    second.cursor().execute(INSERT)
    assert words(first) == ["late"]
