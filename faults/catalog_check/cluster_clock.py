"""The time of a practice cluster that can be moved on: the site's clock while a pack is proven."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from faults import clock, practice
from faults.errors import ClusterError

PATIENCE_S = 0.05
"""Of the machine's time, between two looks at a command: most have ended by then."""
STEP_S, GROWTH, MAX_STEP_S = 2.0, 1.0, 60.0
"""Of the cluster's time, by which it is moved on at once while a command waits: as much as has passed before."""


class ClusterClock:
    """A ``faults.clock.Clock`` in which waiting costs nothing: the cluster's time is moved on instead.

    Only what was waited for counts, so that nothing is judged by the speed of the machine on which it is proven.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._now = clock.now()

    def now(self) -> datetime:
        """Return the beginning, and all that was waited since."""
        return self._now

    def wait(self, seconds: float) -> None:
        """Move the cluster's time on. Raises ClusterError."""
        practice.skip(self._cluster, seconds)
        self._now += timedelta(seconds=seconds)

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Move the time on for as long as a command inside waits for it. Raises ClusterError.

        The cluster sees for itself that a command runs and computes nothing, and stops once it has ended.
        """
        done, failures = threading.Event(), list[ClusterError]()
        mover = threading.Thread(target=self._move_on, args=(done, failures))
        mover.start()
        try:
            yield
        finally:
            done.set()
            mover.join()
        if failures:
            raise failures[0]

    def _move_on(self, done: threading.Event, failures: list[ClusterError]) -> None:
        began = self._now
        try:
            while not done.wait(PATIENCE_S):
                step_s = max(STEP_S, (self._now - began).total_seconds() * GROWTH)
                skipped = practice.skip(self._cluster, min(step_s, MAX_STEP_S), commands=True)
                self._now += timedelta(seconds=skipped)
        except ClusterError as exc:
            failures.append(exc)
