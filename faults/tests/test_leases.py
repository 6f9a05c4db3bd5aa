"""Leases: one holder at a time, each with a newer epoch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from faults import journal, leases
from faults.models import Cluster, FaultRun

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
LATER = NOW + timedelta(seconds=11)


def test_only_one_holder_has_it():
    assert leases.acquire("observer", "a", 10, NOW) == 1
    assert leases.acquire("observer", "b", 10, NOW) is None


def test_an_expired_lease_goes_to_the_next_with_a_newer_epoch():
    leases.acquire("observer", "a", 10, NOW)
    assert leases.acquire("observer", "b", 10, LATER) == 2
    assert not leases.renew("observer", "a", 1, 10, LATER)
    assert not leases.release("observer", "a", 1)


def test_a_renewed_lease_lasts():
    epoch = leases.acquire("observer", "a", 10, NOW)
    assert leases.renew("observer", "a", epoch, 10, NOW + timedelta(seconds=9))
    assert leases.acquire("observer", "b", 10, LATER) is None


def test_a_released_lease_is_free_at_once():
    epoch = leases.acquire("observer", "a", 10, NOW)
    assert leases.release("observer", "a", epoch)
    assert leases.acquire("observer", "b", 10, NOW) == epoch + 1


def test_a_restarted_holder_fences_off_its_former_self():
    first = leases.acquire("observer", "a", 10, NOW)
    second = leases.acquire("observer", "a", 10, NOW)
    assert second == first + 1
    assert not leases.renew("observer", "a", first, 10, NOW)


def test_a_lease_of_a_wrong_clock_keeps_nobody_out(db):
    noon = datetime(2026, 5, 4, 12, tzinfo=UTC)
    assert leases.acquire("observer", "dead", 6, noon + timedelta(hours=1)) == 1
    assert leases.acquire("observer", "b", 6, noon) == 2


def test_a_runs_lease_of_a_wrong_clock_keeps_nobody_out(db):
    noon = datetime(2026, 5, 4, 12, tzinfo=UTC)
    cluster = Cluster.objects.create(name="c", tier=Cluster.Tier.PRACTICE)
    run = FaultRun.objects.create(cluster=cluster, purpose=FaultRun.Purpose.ENVIRONMENT)
    journal.take(run.pk, "dead", noon + timedelta(hours=1))
    assert journal.take(run.pk, "b", noon) == 2
