"""Workers: rq's, reading jobs as JSON and known to Redis again after Redis has forgotten everything."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from django.db import close_old_connections
from rq import SimpleWorker, worker_registration
from rq import Worker as RqWorker
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.timeouts import TimerDeathPenalty
from rq.worker import BaseWorker

from faults import outbox
from sessions import clock

TTL_S = 30  # a lane asks Redis for a job for half of it, and is known to Redis for all of it


class _Known(BaseWorker):
    """A worker that Redis cannot forget, and that notes in the outbox which jobs were begun."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Take the serializer from here, whatever the command line says: pickles are never read."""
        super().__init__(*args, **{**options, "serializer": JSONSerializer})

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Tell Redis that this worker lives; where Redis has lost it (a crash, a fail-over), enter it once more."""
        super().heartbeat(timeout, pipeline)
        if pipeline is None and not self.connection.sismember(self.redis_workers_keys, self.key):
            self.connection.hset(self.key, mapping=self.serialize())
            worker_registration.register(self)

    def perform_job(self, job: Job, queue: Any) -> bool:
        """Note that the job was begun, and do it."""
        outbox.begin(job.id, clock.now())
        return bool(super().perform_job(job, queue))


class Worker(_Known, RqWorker):
    """A worker with a process of its own, which forks for each job: ``manage.py rqworker``."""


class Lane(_Known, SimpleWorker):
    """A worker in a thread: it installs no signal handlers, needs no alarm and listens to no commands."""

    death_penalty_class = TimerDeathPenalty

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "worker_ttl": TTL_S})
        self.at_work: Callable[[], AbstractContextManager[None]] = nullcontext
        """Makes what is entered for the time of each job."""
        self._entering = threading.Lock()

    def register_birth(self) -> None:
        """Enter Redis, but not after ``stop``: whoever stopped it has taken it out again, or is about to."""
        with self._entering:
            if not self._stop_requested:
                super().register_birth()  # type: ignore[no-untyped-call]

    def perform_job(self, job: Job, queue: Any) -> bool:
        """Do the job, and keep no connection to the database that it broke."""
        with self.at_work():
            close_old_connections()
            try:
                return super().perform_job(job, queue)
            finally:
                close_old_connections()

    def stop(self) -> None:
        """Take no further job."""
        with self._entering:
            self._stop_requested = True

    def subscribe(self) -> None:
        """Listen to no commands: nobody sends any."""

    def unsubscribe(self) -> None:
        """Undo nothing."""

    def procline(self, message: str) -> None:
        """Leave the process its name: it is not this lane's alone."""

    def _set_ip_address(self, connection: Any) -> None:
        """Give no address: the lanes share their connections, of which rq would ask for a list of all clients."""
        self.ip_address = "unknown"

    def _install_signal_handlers(self) -> None:
        """Leave signals to the process."""
