"""Worker lanes: threads of one process, each of which takes jobs from the queue and works on one at a time.

A job mostly waits for a cluster, so that a lane costs a thread and not a process of 90 MB. No lane waits for longer
than a request: what takes its time is scheduled (``sessions.services.phases``). Two lanes are always there; others
are made while all that there are have a job, and end when they have had none for a while.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import django_rq
from django.db import OperationalError, connections
from redis.exceptions import RedisError

from interview_site.worker import Lane

log = logging.getLogger(__name__)
QUEUES = ("faults", "default")
MIN_LANES = 2
IDLE_S = 10
"""Without a job for so long, a lane ends that is not one of the first two."""
AGAIN_S = 1.0


class Lanes:
    """Lanes that are started again, each for itself, when they fail."""

    def __init__(self, count: int, make: Callable[[], Lane] | None = None, idle_s: int = IDLE_S) -> None:
        """``count`` is how many there may be at a time."""
        self._max = max(count, MIN_LANES)
        self._make = make or _make
        self._idle_s = idle_s
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._current: dict[int, Lane] = {}
        self._threads: dict[int, threading.Thread] = {}
        self._busy: set[int] = set()

    def start(self) -> None:
        """Begin to work."""
        with self._lock:
            for _ in range(MIN_LANES):
                self._add()

    def close(self, seconds: float) -> None:
        """Let lanes finish what they are at, for so many seconds together; leases let others go on with the rest."""
        self._stop.set()
        with self._lock:
            lanes = [(self._threads[number], lane) for number, lane in list(self._current.items())]
        for _, lane in lanes:
            lane.stop()
        for thread, lane in lanes:
            if lane.get_current_job_id():
                thread.join(seconds / len(lanes))
        for _, lane in lanes:
            _forget(lane)

    def __len__(self) -> int:
        """Return how many lanes there are."""
        return len(self._threads)

    def _add(self) -> None:
        number = next(self._numbers)
        thread = threading.Thread(target=self._run, args=(number,), name=f"lane {number}", daemon=True)
        self._threads[number] = thread
        thread.start()

    def _run(self, number: int) -> None:
        max_idle_s = None if number < MIN_LANES else self._idle_s
        while not self._stop.is_set():
            try:
                lane = self._current[number] = self._make()
                lane.at_work = partial(self._at_work, number)
                lane.work(logging_level="ERROR", max_idle_time=max_idle_s)
                if max_idle_s is not None and self._leave(number):
                    return
            except (RedisError, OSError, OperationalError) as exc:
                log.warning("A lane lost its connection and begins anew: %s", exc)
            finally:
                connections.close_all()
            self._stop.wait(AGAIN_S)

    @contextmanager
    def _at_work(self, number: int) -> Iterator[None]:
        """Count a lane as busy for the time of a job, and see to it that another one is free meanwhile."""
        with self._lock:
            self._busy.add(number)
            if len(self._busy) == len(self._threads) < self._max and not self._stop.is_set():
                self._add()
        try:
            yield
        finally:
            with self._lock:
                self._busy.discard(number)

    def _leave(self, number: int) -> bool:
        """Give a lane up that had nothing to do; False where it is the only free one."""
        with self._lock:
            if len(self._threads) - len(self._busy) <= 1:
                return False
            del self._threads[number], self._current[number]
            return True


def _make() -> Lane:
    queues = [django_rq.get_queue(name) for name in QUEUES]
    return Lane(queues, connection=queues[0].connection)


def _forget(lane: Lane) -> None:
    try:
        lane.register_death()  # type: ignore[no-untyped-call]
    except (RedisError, OSError) as exc:
        log.info("Redis forgets a lane by itself: %s", exc)
