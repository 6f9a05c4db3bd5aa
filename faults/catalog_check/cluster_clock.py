"""The time of a practice cluster that can be moved on: the site's clock while a pack is proven."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from faults import clock, practice
from faults.errors import ClusterError

PATIENCE_S = 0.3
"""Of the machine's time: a command that takes longer waits for something in the cluster."""
STEP_S, GROWTH = 0.5, 0.25
"""Of the cluster's time, between two looks at a command that waits: at least so long, or a quarter of what passed."""


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
        """Move the time on for as long as a command inside waits for it. Raises ClusterError."""
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
                self.wait(max(STEP_S, (self._now - began).total_seconds() * GROWTH))
        except ClusterError as exc:
            failures.append(exc)
