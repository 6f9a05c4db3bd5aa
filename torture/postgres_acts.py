"""Ways in which a PostgreSQL is broken under an installation."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable

import psycopg

from torture.postgres import Postgres

Act = Callable[[], str]
Later = Callable[[float, Callable[[], object]], None]
MAX_AWAY_S = 6.0
MAX_LOCK_S = 4.0


class PostgresActs:
    """Breaks a server; ``later`` does something after so many seconds, and is waited for before the end."""

    def __init__(self, server: Postgres, rng: random.Random, later: Later) -> None:
        self._server, self._rng, self._later = server, rng, later

    def every(self) -> list[Act]:
        """Return each way once."""
        acts = [self._stop, self._restart, self._crash, self._away, self._cut, self._cut_often, self._lock]
        return acts + ([self._fill_disk] if self._server.disk is not None else [])

    def _stop(self) -> str:
        seconds = self._rng.uniform(1, MAX_AWAY_S)
        self._server.send(signal.SIGSTOP)
        self._later(seconds, lambda: self._server.send(signal.SIGCONT))
        return f"PostgreSQL stopped for {seconds:.1f} s"

    def _restart(self) -> str:
        self._server.restart()
        return "PostgreSQL restarted"

    def _crash(self) -> str:
        self._server.restart(signal.SIGKILL)
        return "PostgreSQL killed and started"

    def _away(self) -> str:
        seconds = self._rng.uniform(1, MAX_AWAY_S)
        self._server.end()
        self._later(seconds, self._server.mend)
        return f"PostgreSQL away for {seconds:.1f} s"

    def _cut(self) -> str:
        try:
            return f"{self._server.cut_connections()} connections cut"
        except psycopg.OperationalError:
            return "connections to be cut, but PostgreSQL is away"

    def _cut_often(self) -> str:
        return "; ".join(self._after_a_moment() for _ in range(5))

    def _after_a_moment(self) -> str:
        threading.Event().wait(self._rng.uniform(0.1, 0.6))
        return self._cut()

    def _lock(self) -> str:
        seconds = self._rng.uniform(1, MAX_LOCK_S)
        try:
            with self._server.locked() as tables:
                threading.Event().wait(seconds)
        except psycopg.OperationalError:
            return "tables to be locked, but PostgreSQL is away or busy"
        return f"{len(tables)} tables locked for {seconds:.1f} s"

    def _fill_disk(self) -> str:
        disk, seconds = self._server.disk, self._rng.uniform(1, MAX_LOCK_S)
        assert disk is not None
        disk.fill()
        self._later(seconds, self._make_room)
        return f"PostgreSQL's disk full for {seconds:.1f} s"

    def _make_room(self) -> None:
        """Free the disk; a server that gave up meanwhile is started, as whatever watches over it does."""
        if self._server.disk is not None:
            self._server.disk.free()
        self._server.mend()
