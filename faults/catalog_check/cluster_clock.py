"""The time of a practice cluster that can be moved on: the site's clock while a pack is proven."""

from __future__ import annotations

from datetime import datetime, timedelta

from faults import clock, practice


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
