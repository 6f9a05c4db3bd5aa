"""What must happen though nobody asks: jobs to relay, runs that are overdue, sessions to release."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime

from django.db import OperationalError, connection

from faults import outbox, reconciler
from faults.clock import boot_s
from faults.errors import ClusterError, FaultError
from faults.packs import PackError
from sessions import services
from sessions.observer.cluster_threads import ClusterThreads
from sessions.observer.outages import AbsenceWatch
from sessions.observer.timekeeping import keep_time

log = logging.getLogger(__name__)
EVERY_S = 1.0
Duty = Callable[[], None]


class Sweeper:
    """Sweeps in threads of its own: a revert that waits for a dead cluster must hold up neither panels nor jobs."""

    def __init__(self, now: Callable[[], datetime], steady: Callable[[], float] = boot_s) -> None:
        self._now = now
        self._absence = AbsenceWatch(now, steady)
        self._stop = threading.Event()
        self._clusters = ClusterThreads()
        self._rechecks = reconciler.Rechecks()
        groups: list[tuple[Duty, ...]] = [
            (self._relay, self._look_for_absence, keep_time, self._housekeep),
            (self._reconcile_apart,),
        ]
        self._threads = [
            threading.Thread(target=self._run, args=group, name=f"sweeper {number}", daemon=True)
            for number, group in enumerate(groups)
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

    def _relay(self) -> None:
        outbox.sweep(self._now())

    def _reconcile(self) -> None:
        reconciler.tick(self._now())

    def _reconcile_apart(self) -> None:
        reconciler.tick(self._now(), self._clusters.spread, self._rechecks)

    def _look_for_absence(self) -> None:
        self._absence.look()

    def _housekeep(self) -> None:
        services.housekeep(self._now())

    def _run(self, *duties: Duty) -> None:
        try:
            while not self._stop.wait(EVERY_S):
                self.sweep(*duties)
        finally:
            connection.close()
