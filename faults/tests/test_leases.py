"""Leases: one holder at a time, each with a newer epoch."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError, connection

from faults import jobs, journal, leases
from faults.models import Cluster, FaultRun
from faults.services.work import working

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


class LostConnection:
    """Refuses every statement as a server does that has cut the connection, from the first that ``words`` are in."""

    def __init__(self, words) -> None:
        self.words, self.lost = words, None

    def __call__(self, execute, sql, params, many, context):
        current = context["connection"].connection
        if self.lost is None and self.words in sql:
            self.lost = current
        if current is self.lost:
            raise OperationalError("terminating connection due to administrator command")
        return execute(sql, params, many, context)


@pytest.mark.django_db(transaction=True)
def test_who_loses_the_connection_gives_the_lease_back_on_a_new_one():
    fault = LostConnection("auth_user")
    held = leases.holding("cluster:7", "a", 10, lambda: NOW)
    with connection.execute_wrapper(fault), pytest.raises(OperationalError), held:
        User.objects.count()
    assert fault.lost is not None
    assert leases.acquire("cluster:7", "b", 10, NOW)


@pytest.mark.django_db(transaction=True)
def test_who_loses_the_connection_gives_the_run_back_on_a_new_one():
    cluster = Cluster.objects.create(name="c", tier=Cluster.Tier.PRACTICE)
    run = FaultRun.objects.create(cluster=cluster, purpose=FaultRun.Purpose.ENVIRONMENT)
    fault = LostConnection("auth_user")
    with connection.execute_wrapper(fault), pytest.raises(OperationalError), working(run.pk, "a", NOW):
        User.objects.count()
    assert journal.take(run.pk, "b", NOW)


@pytest.mark.django_db(transaction=True)
def test_without_a_database_a_lease_is_left_to_end_by_itself(caplog):
    def is_away():
        raise OperationalError("connection refused")

    caplog.set_level("INFO")
    leases.give_back(is_away)
    assert "left to end by itself: connection refused" in caplog.text


def test_a_job_whose_database_is_away_says_so_in_a_line_and_comes_again(caplog):
    def job(pk):
        raise OperationalError("terminating connection due to administrator command\nand more")

    jobs.without_fuss(job)(7)
    assert "job 7 stopped and comes again: terminating connection due to administrator command" in caplog.text
    assert "and more" not in caplog.text
