"""The worker: rq's, reading jobs as JSON and known to Redis again after Redis has forgotten everything."""

from __future__ import annotations

from typing import Any

from rq import Worker as RqWorker
from rq import worker_registration
from rq.serializers import JSONSerializer


class Worker(RqWorker):
    """Takes the serializer from here, whatever the command line says: pickles are never read."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "serializer": JSONSerializer})

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Tell Redis that this worker lives; where Redis has lost it (a crash, a fail-over), enter it once more."""
        super().heartbeat(timeout, pipeline)
        if pipeline is None and not self.connection.sismember(self.redis_workers_keys, self.key):
            self.connection.hset(self.key, mapping=self.serialize())
            worker_registration.register(self)
