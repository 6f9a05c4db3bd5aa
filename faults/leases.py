"""Named leases in the database: one holder at a time, each with a newer epoch than the one before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import OperationalError, connection
from django.db.models import F, Q

from faults import heartbeat
from faults.errors import LeaseHeld, StaleEpoch
from faults.models import Lease

log = logging.getLogger(__name__)
FARTHEST = 10  # times the length of a lease


def acquire(name: str, holder: str, ttl_s: float, now: datetime) -> int | None:
    """Take the lease if it is free, expired, or already this holder's.

    Returns the new epoch (each taking raises it), or None while somebody else holds it. ``ttl_s`` is in seconds.
    """
    until = now + timedelta(seconds=ttl_s)
    if Lease.objects.get_or_create({"holder": holder, "epoch": 1, "until": until}, name=name)[1]:
        return 1
    by_a_wrong_clock = Q(until__gt=now + timedelta(seconds=FARTHEST * ttl_s))  # nobody takes it for so long
    free = Q(until__isnull=True) | Q(until__lt=now) | Q(holder=holder) | by_a_wrong_clock
    taken = Lease.objects.filter(free, name=name).update(holder=holder, epoch=F("epoch") + 1, until=until)
    return Lease.objects.values_list("epoch", flat=True).get(name=name) if taken else None


def renew(name: str, holder: str, epoch: int, ttl_s: float, now: datetime) -> bool:
    """Keep the lease for another ``ttl_s`` seconds; False means that it was lost and its holder must stop."""
    held = Lease.objects.filter(name=name, holder=holder, epoch=epoch)
    return held.update(until=now + timedelta(seconds=ttl_s)) == 1


def release(name: str, holder: str, epoch: int) -> bool:
    """Give the lease back early; False where it was lost before."""
    return Lease.objects.filter(name=name, holder=holder, epoch=epoch).update(holder="", until=None) == 1


@contextmanager
def holding(name: str, holder: str, ttl_s: float, now: Callable[[], datetime]) -> Iterator[Callable[[], None]]:
    """Hold a lease and keep it before every request to a cluster; yields what keeps it in between.

    Raises LeaseHeld while somebody else has it, and StaleEpoch, from any request, once it was lost.
    """
    epoch = acquire(name, holder, ttl_s, now())
    if epoch is None:
        raise LeaseHeld("Another worker is on this cluster; it goes on by itself.")

    def keep() -> None:
        if not renew(name, holder, epoch, ttl_s, now()):
            raise StaleEpoch("Another worker has taken this cluster over.")

    try:
        with heartbeat.beating(keep):
            yield keep
    finally:
        give_back(lambda: release(name, holder, epoch))


def give_back(act: Callable[[], object]) -> None:
    """Give a lease back, on a new connection where this one was lost; without a database it ends by itself."""
    try:
        act()
    except OperationalError:
        if connection.in_atomic_block:
            raise
        connection.close()
        try:
            act()
        except OperationalError as exc:
            log.info("A lease is left to end by itself: %s", exc)
