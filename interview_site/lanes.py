"""Worker lanes: threads of one process, each of which takes jobs from the queue and works on one at a time.

A job mostly waits for a cluster, so that a lane costs a thread and not a process of 90 MB. No lane waits for longer
than a request: what takes its time is scheduled (``sessions.services.phases``).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import django_rq
from django.db import OperationalError, connections
from redis.exceptions import RedisError

from interview_site.worker import Lane

log = logging.getLogger(__name__)
QUEUES = ("faults", "default")
MIN_LANES = 2
AGAIN_S = 1.0


class Lanes:
    """Lanes that are started again, each for itself, when they end."""

    def __init__(self, count: int, make: Callable[[], Lane] | None = None) -> None:
        self._make = make or _make
        self._stop = threading.Event()
        self._current: dict[int, Lane] = {}
        self._threads = [
            threading.Thread(target=self._run, args=(number,), name=f"lane {number}", daemon=True)
            for number in range(max(count, MIN_LANES))
        ]

    def start(self) -> None:
        """Begin to work."""
        for thread in self._threads:
            thread.start()

    def close(self, seconds: float) -> None:
        """Let lanes finish what they are at, for so many seconds together; leases let others go on with the rest."""
        self._stop.set()
        for lane in list(self._current.values()):
            lane.stop()
        for thread, lane in zip(self._threads, list(self._current.values()), strict=False):
            if lane.get_current_job_id():
                thread.join(seconds / len(self._threads))
        for lane in list(self._current.values()):
            _forget(lane)

    def _run(self, number: int) -> None:
        while not self._stop.is_set():
            try:
                lane = self._current[number] = self._make()
                lane.work(logging_level="ERROR")
            except (RedisError, OSError, OperationalError) as exc:
                log.warning("A lane lost its connection and begins anew: %s", exc)
            finally:
                connections.close_all()
            self._stop.wait(AGAIN_S)


def _make() -> Lane:
    queues = [django_rq.get_queue(name) for name in QUEUES]
    return Lane(queues, connection=queues[0].connection)


def _forget(lane: Lane) -> None:
    try:
        lane.register_death()  # type: ignore[no-untyped-call]
    except (RedisError, OSError) as exc:
        log.info("Redis forgets a lane by itself: %s", exc)
