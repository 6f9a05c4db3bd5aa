"""A thread for each cluster that has something to be done: one that hangs holds up none of the others."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from django.db import OperationalError, connection

log = logging.getLogger(__name__)
MAX_THREADS = 32


class ClusterThreads:
    """Does duties of clusters side by side, never two of one cluster at a time."""

    def __init__(self) -> None:
        self._threads: dict[int, threading.Thread] = {}

    def spread(self, cluster_id: int, duty: Callable[[], int]) -> int:
        """Begin a duty unless its cluster is busy; returns at once. What is not begun comes again next time."""
        self._threads = {pk: thread for pk, thread in self._threads.items() if thread.is_alive()}
        if cluster_id in self._threads or len(self._threads) >= MAX_THREADS:
            return 0
        thread = threading.Thread(target=_do, args=(duty,), name=f"reconcile {cluster_id}", daemon=True)
        self._threads[cluster_id] = thread
        thread.start()
        return 0

    def wait(self, seconds: float) -> None:
        """Wait for what is under way, at most so many seconds for each."""
        for thread in list(self._threads.values()):
            thread.join(seconds)


def _do(duty: Callable[[], int]) -> None:
    try:
        duty()
    except OperationalError as exc:
        log.warning("The database did not answer and is tried again: %s", exc)
    finally:
        connection.close()
