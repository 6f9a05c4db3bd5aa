"""The metrics of one cluster while one of its sessions is under way: one thread, whoever looks at them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any

from django.db import OperationalError, connection

from faults.errors import ClusterError, FaultError
from faults.metrics import SCRAPE_INTERVAL, PrometheusSource, Readings, Sampler
from sessions.observer.kept_answers import KeptAnswers

log = logging.getLogger(__name__)
MAX_QUERIES_S = 8.0
"""Of the queries of conditions in one turn; the rest has the next one, which begins at once."""
Namespaces = Callable[[], Collection[str]]
"""The namespaces of the cluster's sessions."""


class MetricsWatch:
    """Samples from ``begin`` until ``pause`` or ``close``; what was read last stays.

    ``changed`` is called with new readings, and with None where the first try in a row has failed; ``answered`` where
    a query of a condition has its first answer.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], PrometheusSource],
        now: Callable[[], datetime],
        namespaces: Namespaces,
        changed: Callable[[Readings | None], None],
        answered: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self._sampler = Sampler(connect, now)
        self._namespaces = namespaces
        self._changed = changed
        self._answered = answered
        self._wake = threading.Event()
        self._answers: KeptAnswers[str, Sequence[Any]] = KeptAnswers(SCRAPE_INTERVAL, now, self._wake.set)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def newest(self) -> Readings | None:
        """Return the newest readings, however old."""
        return self._sampler.newest

    @property
    def error(self) -> str:
        """Return why the last query failed; empty where it did not."""
        return self._sampler.error

    @property
    def is_running(self) -> bool:
        """Whether somebody asks Prometheus now and then."""
        return self._thread is not None and self._thread.is_alive() and not self._stop.is_set()

    def begin(self) -> None:
        """Sample from now on, in a thread of its own: a Prometheus that hangs holds up no checks."""
        if self._thread is not None and self._thread.is_alive():
            return  # it runs, or ends with the query that it waits for: the next look begins another
        self._stop = threading.Event()
        arguments = (self._stop,)
        self._thread = threading.Thread(
            target=self._run, args=arguments, name=f"metrics {self._name[:20]}", daemon=True
        )
        self._thread.start()

    def pause(self) -> None:
        """Ask no more, within a moment."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(0.3)

    def query(self, promql: str) -> Sequence[Any]:
        """Return the newest series of a condition's query, asked for once in an interval whoever wants them.

        Raises NotYet before the first answer, ClusterError where there is none.
        """
        return self._answers.get(promql)

    def take_turn(self) -> None:
        """Ask Prometheus where that is due: for the panels, then for the conditions."""
        had_failed = bool(self._sampler.error)
        if self._sampler.look(self._namespaces()):
            self._changed(self._sampler.newest)
        elif self._sampler.error and not had_failed:
            log.warning("Metrics of %s are not to be had, and asked for again: %s", self._name, self._sampler.error)
            self._changed(None)
        self._ask_queries()

    def _ask_queries(self) -> None:
        until = time.monotonic() + MAX_QUERIES_S
        for promql in self._answers.take_due():
            if self._stop.is_set() or time.monotonic() > until:
                return
            if self._answers.put(promql, self._ask(promql)):
                self._answered()

    def _ask(self, promql: str) -> Sequence[Any] | ClusterError:
        try:
            return self._sampler.query(promql)
        except ClusterError as exc:
            return exc

    def _run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                self._wake.clear()
                self._turn_safely()
                self._wake.wait(self._pause_s())
        finally:
            self._sampler.close()
            connection.close()

    def _pause_s(self) -> float:
        queries = self._answers.due_in_s()
        panels = self._sampler.due_in_s()
        return max(panels if queries is None else min(panels, queries), 0.5)

    def _turn_safely(self) -> None:
        try:
            self.take_turn()
        except (ClusterError, FaultError, OperationalError) as exc:
            log.warning("Metrics of %s could not be kept: %s", self._name, exc)
            connection.close_if_unusable_or_obsolete()
