"""Upkeep that nobody asks for: jobs to relay, runs that are overdue, sessions to release."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime

from django.db import OperationalError, connection

from faults import outbox, reconciler
from faults.clock import boot_s
from faults.errors import ClusterError, FaultError
from faults.idleness import Idleness
from faults.packs import PackError
from sessions import services
from sessions.observer.cluster_threads import ClusterThreads
from sessions.observer.outages import AbsenceWatch
from sessions.observer.timekeeping import follow_time, is_anything_open, keep_time

log = logging.getLogger(__name__)
EVERY_S = 1.0
Duty = Callable[[], None]


class Sweeper:
    """Sweeps in threads of its own: a revert that waits for a dead cluster must hold up neither panels nor jobs.

    While nothing is open, it only keeps the time.
    """

    def __init__(self, now: Callable[[], datetime], steady: Callable[[], float] = boot_s) -> None:
        self._now = now
        self._absence = AbsenceWatch(now, steady)
        self._stop = threading.Event()
        self._clusters = ClusterThreads()
        self._rechecks = reconciler.Rechecks()
        self._upkeep = Idleness(_is_upkeep_needed)
        self._is_idle = False
        self._reverts = Idleness(reconciler.is_anything_left)
        self._threads = [
            threading.Thread(target=self._run, args=(turn,), name=f"sweeper {number}", daemon=True)
            for number, turn in enumerate((self.keep_up, self.revert))
        ]

    def start(self) -> None:
        """Begin to sweep."""
        for thread in self._threads:
            thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it sweeps."""
        return all(thread.is_alive() for thread in self._threads)

    def close(self) -> None:
        """Stop after the duty in hand; a revert that hangs is continued by whoever comes next."""
        self._stop.set()
        for thread in self._threads:
            thread.join(0.3)

    def sweep(self, *duties: Duty) -> None:
        """Do duties (all of them) once; one that fails is tried again next time and keeps no other from its turn."""
        for duty in duties or (self._relay, self._housekeep, self._reconcile):
            try:
                duty()
            except (ClusterError, FaultError, PackError, OperationalError) as exc:
                log.warning("%s failed and is tried again: %s", duty.__name__.strip("_"), exc)
                connection.close_if_unusable_or_obsolete()

    def keep_up(self) -> None:
        """Take one turn with the time, jobs and sessions."""
        self.sweep(self._look_for_absence, self._keep_up)

    def revert(self) -> None:
        """Take one turn with the runs."""
        self.sweep(self._revert)

    def _keep_up(self) -> None:
        self._is_idle = self._upkeep.holds()
        if self._is_idle:
            follow_time()
        else:
            self.sweep(self._relay, keep_time, self._housekeep)

    def _revert(self) -> None:
        if not self._reverts.holds():
            self._reconcile_apart()

    def _relay(self) -> None:
        outbox.sweep(self._now())

    def _reconcile(self) -> None:
        reconciler.tick(self._now())

    def _reconcile_apart(self) -> None:
        reconciler.tick(self._now(), self._clusters.spread, self._rechecks)

    def _look_for_absence(self) -> None:
        self._absence.look(is_idle=self._is_idle)

    def _housekeep(self) -> None:
        services.housekeep(self._now())

    def _run(self, turn: Duty) -> None:
        try:
            while not self._stop.wait(EVERY_S):
                turn()
        finally:
            connection.close()


def _is_upkeep_needed() -> bool:
    return outbox.is_anything_waiting() or is_anything_open()
