"""The workers' jobs. Each job takes row ids and makes one call; delivered twice, it has one effect.

A try that fails is written into the run with the time of the next one; the reconciler comes back to it.
"""

from __future__ import annotations

import logging
import os
import socket
import uuid
from collections.abc import Callable
from functools import wraps

from django.db import OperationalError, connection

from faults import services
from faults.errors import ClusterError, LeaseHeld, NotYet

log = logging.getLogger(__name__)
HOLD_S = 2.0
Job = Callable[[int], None]


def without_fuss(job: Job) -> Job:
    """Return a job that a database in trouble ends with one line in the log; the observer publishes it again."""

    @wraps(job)
    def tried(pk: int) -> None:
        try:
            job(pk)
        except OperationalError as exc:
            log.warning("%s %s stopped and comes again: %s", job.__name__, pk, str(exc).strip().partition("\n")[0])
            if not connection.in_atomic_block:
                connection.close()

    return tried


@without_fuss
def inject_run(run_id: int) -> None:
    """Make a run's changes, or go on with them."""
    try:
        services.inject_run(run_id=run_id, holder=holder_name())
    except (LeaseHeld, ClusterError) as exc:
        log.info("run %s: %s", run_id, exc)


@without_fuss
def revert_run(run_id: int) -> None:
    """Take a run's changes back, or go on with that."""
    try:
        services.revert_run(run_id=run_id, holder=holder_name(), hold_s=HOLD_S)
    except (LeaseHeld, NotYet, ClusterError) as exc:
        log.info("run %s: %s", run_id, exc)


def holder_name() -> str:
    """Return a name for this execution; two deliveries of one job are two holders."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
