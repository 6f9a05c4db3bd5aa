"""The newest readings of one cluster, asked for once in a scrape interval for everybody who looks at them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from faults.backoff import next_pause
from faults.errors import ClusterError, Unreachable
from faults.metrics import readings
from faults.metrics.prometheus import PrometheusSource
from faults.metrics.readings import GpuReading, Readings

SCRAPE_INTERVAL = timedelta(seconds=15)
"""Prometheus' interval in the usual installations, and ours of asking: more often would tell nothing new."""
MAX_PAUSE_S = 120.0


class Sampler:
    """Asks one query for each group of metrics, GPUs and pods; keeps what it was told while nobody answers.

    ``connect`` makes the connection, again after each failure: the service may have moved. ``look`` and ``query``
    belong to one thread; ``newest`` and ``error`` may be read from any.
    """

    def __init__(self, connect: Callable[[], PrometheusSource], now: Callable[[], datetime]) -> None:
        self._connect = connect
        self._now = now
        self._source: PrometheusSource | None = None
        self._due: datetime | None = None
        self._pause_s = 0.0
        self._lock = threading.Lock()
        self._newest: Readings | None = None
        self._error = ""

    @property
    def newest(self) -> Readings | None:
        """Return the newest readings, however old; None before the first."""
        with self._lock:
            return self._newest

    @property
    def error(self) -> str:
        """Return why the last try failed; empty where it did not."""
        with self._lock:
            return self._error

    def due_in_s(self) -> float:
        """Return the seconds until the next query is due."""
        if self._due is None:
            return 0.0
        pause = (self._due - self._now()).total_seconds()
        return min(max(pause, 0.0), MAX_PAUSE_S)  # farther off: the clock was set back

    def look(self, namespaces: Collection[str]) -> bool:
        """Ask where it is due; return whether there are new readings. A failure is kept, and tried again later."""
        if self.due_in_s() > 0:
            return False
        began = self._now()
        try:
            found = self._ask(namespaces, began)
        except ClusterError as exc:
            self._fail(exc, began)
            return False
        with self._lock:
            self._newest, self._error = found, ""
        self._due, self._pause_s = began + SCRAPE_INTERVAL, 0.0
        return True

    def query(self, promql: str) -> list[Any]:
        """Return the series of one more query. Raises ClusterError, at once while the last look has failed."""
        if self._error:
            raise Unreachable(self._error)
        self._source = self._source or self._connect()
        return self._source.query(promql)

    def close(self) -> None:
        """Close the connection."""
        source, self._source = self._source, None
        if source is not None:
            source.close()

    def _ask(self, namespaces: Collection[str], at: datetime) -> Readings:
        source = self._source = self._source or self._connect()
        gpus, asked = self._gpus(source)
        pods = self._source.query(readings.pod_query(namespaces)) if namespaces else []
        before = self._newest.gpus_at if self._newest else None
        found = Readings(at, gpus, readings.parse_pods(pods, gpus), at if gpus else before)
        return found if gpus else replace(found, no_gpus=f"asked {' and '.join(asked)}")

    def _gpus(self, source: PrometheusSource) -> tuple[tuple[GpuReading, ...], list[str]]:
        """Return what a server tells of GPUs, and who was asked.

        Where it knows none, or is silent, the cluster's other servers are asked; one that knows any is the source
        from now on. Raises ClusterError where the first is silent, and none of the others helps.
        """
        failure, asked = None, [source.where]
        try:
            if gpus := readings.parse_gpus(source.query(readings.GPU_QUERY)):
                return gpus, asked
        except ClusterError as exc:
            failure = exc
        for connect in source.others:
            other = connect()
            asked.append(other.where)
            if gpus := _gpus_of(other):
                other.others = [self._connect]  # in case that this one loses them, too
                self.close()
                self._source = other
                return gpus, asked
            other.close()
        if failure is not None:
            raise failure
        return (), asked

    def _fail(self, exc: ClusterError, at: datetime) -> None:
        self.close()
        interval = SCRAPE_INTERVAL.total_seconds()
        self._pause_s = next_pause(self._pause_s, base_s=interval, max_s=MAX_PAUSE_S)
        self._due = at + timedelta(seconds=max(self._pause_s, interval))
        with self._lock:
            self._error = exc.message


def _gpus_of(source: PrometheusSource) -> tuple[GpuReading, ...]:
    try:
        return readings.parse_gpus(source.query(readings.GPU_QUERY))
    except ClusterError:
        return ()
