"""Jobs are written down with the change that needs them, and relayed to the queue once that change is committed.

The process that commits relays its own row at once; ``sweep`` relays what a crash or a Redis outage left behind, and
again, less and less often, what no worker has begun. A job that waits is written down once, however often it is asked
for: a worker that is slow, or a Redis that is away, makes no flood. A row may be delivered twice (a crash after the
enqueue): every job is safe to repeat.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import django_rq
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from redis import Redis
from redis.exceptions import RedisError
from rq import Queue

from faults import clock
from faults.models import Outbox

log = logging.getLogger(__name__)
MAX_WAIT_S = 1.0
GRACE = timedelta(seconds=1)  # the committing process gets this long to relay its own row
RELAY_AGAIN = timedelta(seconds=10)  # doubled with every relay: Redis may have forgotten the queue
MAX_DOUBLINGS = 5
KEPT = timedelta(days=7)
_PREFIX = "outbox-"


def publish(job: str, *ids: int) -> Outbox:
    """Write a job down in the current transaction, unless it waits already, and relay it when that commits.

    ``job`` is the dotted path of a function; ``ids`` are row ids, its only arguments.
    """
    waiting = Outbox.objects.filter(job=job, args=list(ids), taken_at__isnull=True).first()
    row = waiting or Outbox.objects.create(job=job, args=list(ids), created_at=clock.now())
    if row.sent_at is None:
        transaction.on_commit(lambda: relay(row))
    return row


def waits(job: str, *ids: int) -> bool:
    """Return whether a job is written down that no worker has begun."""
    return Outbox.objects.filter(job=job, args=list(ids), taken_at__isnull=True).exists()


def begun_since(when: datetime, now: datetime, job: str, *ids: int) -> bool:
    """Return whether a worker has begun the job since then; a later time than now is a wrong one."""
    begun = Outbox.objects.filter(job=job, args=list(ids), taken_at__gt=when)
    return begun.filter(taken_at__lte=now + GRACE).exists()


def is_anything_waiting() -> bool:
    """Return whether some job is written down that no worker has begun."""
    return Outbox.objects.filter(taken_at__isnull=True).exists()


def relay(row: Outbox) -> bool:
    """Enqueue one row; False (and the row kept for ``sweep``) where Redis cannot be reached."""
    name = "faults" if row.job.startswith("faults.") else "default"
    job_id = f"{_PREFIX}{row.pk}"
    try:
        queue: Queue = django_rq.get_queue(name, connection=_connection(settings.RQ_QUEUES[name]["URL"]))
        queue.remove(job_id)  # at most once in the queue, however often it is relayed
        queue.enqueue(row.job, *row.args, job_id=job_id)
    except (RedisError, OSError) as exc:
        log.warning("Redis cannot be reached, %s waits in the outbox: %s", row.job, exc)
        return False
    Outbox.objects.filter(pk=row.pk).update(sent_at=clock.now(), relays=F("relays") + 1)
    return True


def begin(job_id: str, now: datetime) -> None:
    """Note that a worker begins a job, by the queue's name for it."""
    number = job_id.removeprefix(_PREFIX)
    if number != job_id and number.isdigit():
        Outbox.objects.filter(pk=int(number)).update(taken_at=now)


def sweep(now: datetime) -> int:
    """Relay every row that is due, oldest first; return how many went out. Forget what is done for a week."""
    Outbox.objects.filter(taken_at__lt=now - KEPT).delete()
    sent = 0
    settled = Q(created_at__lte=now - GRACE) | Q(created_at__gt=now + GRACE)  # the latter by a clock that was set
    for row in Outbox.objects.filter(settled, taken_at__isnull=True).order_by("id")[:500]:
        if not _is_due(row, now):
            continue
        if not relay(row):
            break
        sent += 1
    return sent


@lru_cache(maxsize=4)
def _connection(url: str) -> Redis[Any]:
    """Return a connection for those who wait for an answer: a Redis that hangs holds nobody up for longer."""
    return Redis.from_url(url, socket_timeout=MAX_WAIT_S, socket_connect_timeout=MAX_WAIT_S)


def _is_due(row: Outbox, now: datetime) -> bool:
    return row.sent_at is None or abs(now - row.sent_at) >= RELAY_AGAIN * 2 ** min(
        max(row.relays - 1, 0), MAX_DOUBLINGS
    )
