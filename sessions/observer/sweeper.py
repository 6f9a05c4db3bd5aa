"""What must happen though nobody asks: jobs to relay, runs that are overdue, sessions to release."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime

from django.db import OperationalError, connection

from faults import outbox, reconciler
from faults.errors import ClusterError, FaultError
from faults.packs import PackError
from sessions import services

log = logging.getLogger(__name__)
EVERY_S = 1.0


class Sweeper:
    """Sweeps in a thread of its own: a revert that waits for a dead cluster must not hold up the panels."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)

    def start(self) -> None:
        """Begin to sweep."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it sweeps."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop after the duty in hand; a revert that hangs is continued by whoever comes next."""
        self._stop.set()
        self._thread.join(0.3)

    def sweep(self) -> None:
        """Do every duty once; one that fails is tried again at the next sweep and keeps no other from its turn."""
        for duty in (self._relay, self._reconcile, self._housekeep):
            try:
                duty()
            except (ClusterError, FaultError, PackError, OperationalError) as exc:
                log.warning("%s failed and is tried again: %s", duty.__name__.strip("_"), exc)
                connection.close_if_unusable_or_obsolete()

    def _relay(self) -> None:
        outbox.sweep(self._now())

    def _reconcile(self) -> None:
        reconciler.tick(self._now())

    def _housekeep(self) -> None:
        services.housekeep(self._now())

    def _run(self) -> None:
        try:
            while not self._stop.wait(EVERY_S):
                self.sweep()
        finally:
            connection.close()
