"""Jobs are written down with the change that needs them, and relayed to the queue once that change is committed.

The process that commits relays its own row at once; ``sweep`` relays what a crash or a Redis outage left behind.
A row may be relayed twice (a crash after the enqueue): every job is safe to repeat.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import django_rq
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from redis import Redis
from redis.exceptions import RedisError

from faults.models import Outbox

log = logging.getLogger(__name__)
MAX_WAIT_S = 1.0
GRACE = timedelta(seconds=1)  # the committing process gets this long to relay its own row


def publish(job: str, *ids: int) -> Outbox:
    """Write a job down in the current transaction and relay it when that commits.

    ``job`` is the dotted path of a function; ``ids`` are row ids, its only arguments.
    """
    row = Outbox.objects.create(job=job, args=list(ids))
    transaction.on_commit(lambda: relay(row))
    return row


def relay(row: Outbox) -> bool:
    """Enqueue one row; False (and the row kept for ``sweep``) where Redis cannot be reached."""
    name = "faults" if row.job.startswith("faults.") else "default"
    try:
        queue = django_rq.get_queue(name, connection=_connection(settings.RQ_QUEUES[name]["URL"]))
        queue.enqueue(row.job, *row.args)
    except (RedisError, OSError) as exc:
        log.warning("Redis cannot be reached, %s waits in the outbox: %s", row.job, exc)
        return False
    Outbox.objects.filter(pk=row.pk, sent_at__isnull=True).update(sent_at=timezone.now())
    return True


def sweep(now: datetime) -> int:
    """Relay every unsent row older than a second, oldest first; return how many went out."""
    sent = 0
    for row in Outbox.objects.filter(sent_at__isnull=True, created_at__lte=now - GRACE).order_by("id")[:500]:
        if not relay(row):
            break
        sent += 1
    return sent


@lru_cache(maxsize=4)
def _connection(url: str) -> Redis[Any]:
    """Return a connection for those who wait for an answer: a Redis that hangs holds nobody up for longer."""
    return Redis.from_url(url, socket_timeout=MAX_WAIT_S, socket_connect_timeout=MAX_WAIT_S)
