"""Idle loops: one that has found nothing to do asks again only after the database has changed.

The question whether SQLite has changed costs 10 microseconds, a query through the ORM costs 300 and more.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from django.db import connection

MAX_IDLE_S = 60.0  # what comes with time alone (old rows to forget) is looked for this often


DatabaseVersion = tuple[object, int, int]


def database_version() -> DatabaseVersion | None:
    """Return what differs after every commit, this connection's own included; None where that cannot be told.

    Raises ``DatabaseError`` where the database does not answer.
    """
    if connection.vendor != "sqlite":
        return None
    with connection.cursor() as cursor:
        (others,) = cursor.execute("PRAGMA data_version").fetchone()
    raw = connection.connection
    return raw, raw.total_changes, others  # another connection counts anew


class Idleness:
    """One thread's memory that nothing was to be done. ``is_needed`` asks the database whether anything is."""

    def __init__(self, is_needed: Callable[[], bool], steady: Callable[[], float] = time.monotonic) -> None:
        self._is_needed = is_needed
        self._steady = steady
        self._idle_at: DatabaseVersion | None = None
        self._since = 0.0

    def holds(self) -> bool:
        """Return whether there is nothing to do, at the cost of a query only where that may have changed."""
        version = database_version()  # before the question: what is committed during it counts as a change
        if version is not None and version == self._idle_at and self._steady() - self._since < MAX_IDLE_S:
            return True
        self._idle_at = None
        if self._steady() - self._since >= MAX_IDLE_S or self._is_needed():
            self._since = self._steady()
            return False
        self._idle_at = version
        return True
