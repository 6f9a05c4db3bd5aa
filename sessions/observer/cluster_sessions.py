"""The sessions of one cluster: one watch of it for all, a thread that evaluates their checks, one for metrics."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime

from django.db import connection

from faults.kube.client import Kube
from faults.metrics import PrometheusSource, Readings
from sessions.models import InterviewSession
from sessions.observer.cluster import ClusterWatch
from sessions.observer.metrics_watch import MetricsWatch
from sessions.observer.remote_reads import RemoteReads
from sessions.observer.session_watch import LOOK_S, Mark, SessionWatch

MIN_PAUSE_S = 0.1  # between two rounds of looks


class ClusterSessions:
    """Begins with the first session and is closed after the last.

    A cluster that hangs holds up its own sessions alone.
    """

    def __init__(
        self, name: str, kube: Kube, connect: Callable[[], PrometheusSource], now: Callable[[], datetime]
    ) -> None:
        self._now = now
        self._watches: dict[int, SessionWatch] = {}
        self._wake = threading.Event()
        self._stop = threading.Event()
        self.cluster = ClusterWatch(kube, (), now)
        self.metrics = MetricsWatch(name, connect, now, self._namespaces, self._metrics_changed, self._wake.set)
        self.remote = RemoteReads(name, self.cluster.kube, self.metrics.query, now, self._wake.set)
        self._thread = threading.Thread(target=self._run, name=f"checks {name[:20]}", daemon=True)

    def start(self) -> None:
        """Begin to watch the cluster and to evaluate checks."""
        self.cluster.start()
        self._thread.start()

    def begin(self, session: InterviewSession, mark: Mark) -> SessionWatch:
        """Follow one more session. Raises ``PackError`` where one of its scenarios cannot be read."""
        watch = SessionWatch(session, self.cluster, mark, self._now, self._wake.set, self.metrics, self.remote)
        self._watches = {**self._watches, session.pk: watch}
        self._wake.set()
        return watch

    def follows(self, session_id: int) -> bool:
        """Whether a session is among these."""
        return session_id in self._watches

    def end(self, session_id: int) -> bool:
        """Stop following a session; return whether none is left."""
        watch = self._watches.get(session_id)
        if watch is not None:
            watch.close()
        self._watches = {pk: each for pk, each in self._watches.items() if pk != session_id}
        return not self._watches

    def close(self) -> None:
        """Stop everything within a second; what hangs in a request ends with it."""
        self._stop.set()
        self._wake.set()
        self.metrics.pause()
        self.remote.close()
        self.cluster.close()
        self._thread.join(0.3)

    @property
    def is_alive(self) -> bool:
        """Whether the cluster is watched and its checks are evaluated."""
        return self._thread.is_alive() and self.cluster.is_alive

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._look()
                self._keep_metrics()
                self._wake.wait(LOOK_S)
                self._stop.wait(MIN_PAUSE_S)  # screens come first, and what follows at once is one change
                self._wake.clear()
        finally:
            connection.close()

    def _look(self) -> None:
        for watch in self._watches.values():
            if not self._stop.is_set() and watch.is_due():
                watch.take_turn()

    def _keep_metrics(self) -> None:
        """Have metrics sampled while a session is under way: charts are there even if nobody has looked."""
        if any(watch.is_under_way for watch in self._watches.values()):
            self.metrics.begin()
        elif self.metrics.is_running:
            self.metrics.pause()

    def _namespaces(self) -> frozenset[str]:
        return frozenset().union(*(watch.namespaces for watch in self._watches.values()))

    def _metrics_changed(self, readings: Readings | None) -> None:
        for watch in self._watches.values():
            watch.take_metrics(readings)
