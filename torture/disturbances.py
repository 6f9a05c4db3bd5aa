"""Ways in which an installation is broken, each at a random moment and for a random time."""

from __future__ import annotations

import random
import signal
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import redis

from torture.api_proxy import ApiProxy
from torture.installation import Installation
from torture.machine import MAX_STEP_S, SmallDisk
from torture.postgres_acts import PostgresActs

Act = Callable[[], str]
MAX_HANG_S = 4.0
KILLED = ("web", "worker", "observer", "kubesim", "redis")


class Disturber:
    """Breaks things. ``proxy`` is the cluster's API proxy, where the round's cluster has one."""

    def __init__(self, installation: Installation, proxy: ApiProxy | None, rng: random.Random) -> None:
        self._installation, self._proxy, self._rng = installation, proxy, rng
        self._timers: list[threading.Timer] = []
        self.told: list[str] = []

    def disturb(self) -> None:
        """Do one thing now, or in a moment."""
        acts: list[Act] = [self._kill, self._kill, self._pair, self._stop, self._redis, *self._of_database()]
        if self._proxy is not None:
            acts += [self._bad_answers, self._bad_answers, self._black_out]
        acts += [self._fill_disk] if self._installation.disk is not None else []
        acts += [self._step_clock] if self._installation.clock is not None else []
        act = self._rng.choice(acts)
        self._later(self._rng.uniform(0, 2.5), lambda: self.told.append(act()))

    def heal(self) -> None:
        """Wait for what is under way, and let everything run again."""
        for timer in self._timers:
            timer.join()
        if self._proxy is not None:
            self._proxy.rate = 0.0
        for disk in self._disks():
            disk.free()
        self._installation.resume()

    def _later(self, seconds: float, act: Callable[[], object]) -> None:
        timer = threading.Timer(seconds, act)
        self._timers.append(timer)
        timer.start()

    def _kill(self, name: str = "") -> str:
        name = name or self._rng.choice(KILLED)
        self._installation.send(name, signal.SIGKILL)
        return f"kill -9 {name}"

    def _pair(self) -> str:
        return " and ".join(self._kill(name) for name in self._rng.sample(KILLED, 2))

    def _stop(self) -> str:
        name, seconds = self._rng.choice(KILLED), self._rng.uniform(1, MAX_HANG_S * 2)
        self._installation.send(name, signal.SIGSTOP)
        self._later(seconds, lambda: self._installation.send(name, signal.SIGCONT))
        return f"SIGSTOP {name} for {seconds:.1f} s"

    def _redis(self) -> str:
        path = Path(self._installation.variables["DATA_DIR"]) / "run" / "redis.sock"
        try:
            redis.Redis(unix_socket_path=str(path), socket_timeout=1).flushall()
        except redis.RedisError:
            return "Redis to be flushed, but away"
        return "Redis flushed"

    def _of_database(self) -> list[Act]:
        """Return what can be done to the database: to a server much more than to a file."""
        server = self._installation.database
        if server is None:
            return [self._lock_database]
        acts = PostgresActs(server, self._rng, self._later)
        # Three of eight, so that the processes have their turn as well.
        return self._rng.sample(acts.every(), 3)

    def _disks(self) -> list[SmallDisk]:
        server = self._installation.database
        found = (self._installation.disk, server.disk if server else None)
        return [disk for disk in found if disk is not None]

    def _lock_database(self) -> str:
        seconds = self._rng.uniform(1, MAX_HANG_S)
        path = Path(self._installation.variables["DATA_DIR"]) / "db.sqlite3"
        held = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
        try:
            held.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            held.close()
            return "database to be locked, but busy"
        threading.Event().wait(seconds)
        held.execute("ROLLBACK")
        held.close()
        return f"database locked for {seconds:.1f} s"

    def _fill_disk(self) -> str:
        disk, seconds = self._installation.disk, self._rng.uniform(1, MAX_HANG_S)
        assert disk is not None
        disk.fill()
        self._later(seconds, disk.free)
        return f"disk full for {seconds:.1f} s"

    def _step_clock(self) -> str:
        """Set the wall clock, and leave it so: nobody sets it back in an interview."""
        clock, ahead_s = self._installation.clock, self._rng.choice((-MAX_STEP_S, 0, MAX_STEP_S))
        assert clock is not None
        clock.set(ahead_s)
        return f"clock set to {ahead_s:+} s"

    def _bad_answers(self) -> str:
        assert self._proxy is not None
        self._proxy.rate = self._rng.uniform(0.05, 0.3)
        return f"API answers badly, {self._proxy.rate:.0%}"

    def _black_out(self) -> str:
        assert self._proxy is not None
        seconds, proxy = self._rng.uniform(2, MAX_HANG_S * 3), self._proxy
        before, proxy.rate = proxy.rate, 1.0
        self._later(seconds, lambda: setattr(proxy, "rate", min(before, 0.3)))
        return f"API answers nothing well for {seconds:.1f} s"
