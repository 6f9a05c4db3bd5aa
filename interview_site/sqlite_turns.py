"""Connections to SQLite whose writes take turns within a process.

SQLite has no queue for its write lock: whoever finds it taken sleeps for up to a tenth of a second and looks again.
Ten lanes that prepared sessions at once spent half of their time in that, partly while nobody wrote at all. Other
processes know nothing of these turns: between them SQLite's own lock decides, as before.
"""

from __future__ import annotations

import sqlite3
import threading
from typing import Any

from django.db.backends.sqlite3.base import SQLiteCursorWrapper

READING = ("SELECT", "PRAGMA")
_turn = threading.Lock()


class TurnCursor(SQLiteCursorWrapper):
    """A cursor that waits for its connection's turn before it writes."""

    connection: TurnConnection

    def execute(self, query: str, params: Any = None) -> Any:
        """Run a statement: one that begins a transaction keeps the turn, any other gives it back."""
        connection = self.connection
        if connection.in_transaction or query.startswith(READING):
            return super().execute(query, params)
        connection.take_turn()
        try:
            return super().execute(query, params)
        finally:
            if not connection.in_transaction:
                connection.give_turn()


class TurnConnection(sqlite3.Connection):
    """A connection that has its process' turn from the beginning of a transaction to the end."""

    _has_turn = False

    def cursor(self, factory: Any = None) -> Any:
        """Return a cursor whose writes wait for their turn."""
        return super().cursor(factory=TurnCursor)

    def take_turn(self) -> None:
        """Wait for the turn, no longer than SQLite may wait for its lock. Raises OperationalError."""
        if self._has_turn:
            return
        if not _turn.acquire(blocking=False):
            (milliseconds,) = self.execute("PRAGMA busy_timeout").fetchone()
            if not _turn.acquire(timeout=milliseconds / 1000):
                raise sqlite3.OperationalError("database is locked")
        self._has_turn = True

    def give_turn(self) -> None:
        """Let the next one write."""
        if self._has_turn:
            self._has_turn = False
            _turn.release()

    def commit(self) -> None:
        """Commit, and let the next one write."""
        try:
            super().commit()
        finally:
            self._end_turn()

    def rollback(self) -> None:
        """Roll back, and let the next one write."""
        try:
            super().rollback()
        finally:
            self._end_turn()

    def _end_turn(self) -> None:
        if not self.in_transaction:  # a commit that failed may be tried again
            self.give_turn()

    def close(self) -> None:
        """Close, and let the next one write."""
        try:
            super().close()
        finally:
            self.give_turn()

    def __del__(self) -> None:
        """Let the next one write where a thread has ended without closing."""
        self.give_turn()
