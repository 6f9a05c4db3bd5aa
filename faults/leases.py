"""Named leases in the database: one holder at a time, each with a newer epoch than the one before."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import F, Q

from faults.models import Lease

FARTHEST = 10  # times the length of a lease


def acquire(name: str, holder: str, ttl_s: float, now: datetime) -> int | None:
    """Take the lease if it is free, expired, or already this holder's.

    Returns the new epoch (each taking raises it), or None while somebody else holds it. ``ttl_s`` is in seconds.
    """
    Lease.objects.get_or_create(name=name)
    by_a_wrong_clock = Q(until__gt=now + timedelta(seconds=FARTHEST * ttl_s))  # nobody takes it for so long
    free = Q(until__isnull=True) | Q(until__lt=now) | Q(holder=holder) | by_a_wrong_clock
    taken = Lease.objects.filter(free, name=name).update(
        holder=holder, epoch=F("epoch") + 1, until=now + timedelta(seconds=ttl_s)
    )
    return Lease.objects.values_list("epoch", flat=True).get(name=name) if taken else None


def renew(name: str, holder: str, epoch: int, ttl_s: float, now: datetime) -> bool:
    """Keep the lease for another ``ttl_s`` seconds; False means that it was lost and its holder must stop."""
    held = Lease.objects.filter(name=name, holder=holder, epoch=epoch)
    return held.update(until=now + timedelta(seconds=ttl_s)) == 1


def release(name: str, holder: str, epoch: int) -> bool:
    """Give the lease back early; False where it was lost before."""
    return Lease.objects.filter(name=name, holder=holder, epoch=epoch).update(holder="", until=None) == 1
