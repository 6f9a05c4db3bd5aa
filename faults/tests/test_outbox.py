"""The outbox over a real Redis and a real worker: nothing is lost, and a second delivery does no harm."""

from __future__ import annotations

from datetime import timedelta

import django_rq
import pytest
from django.db import transaction
from django.utils import timezone
from rq import SimpleWorker
from rq.serializers import JSONSerializer

from faults import outbox
from faults.models import FaultRun, Outbox

JOB = "faults.jobs.revert_run"


@pytest.fixture
def queues(settings, redis_url, tmp_path):
    """Both queues on the test's Redis, empty."""

    def use(url):
        queue = {"URL": url, "SERIALIZER": "rq.serializers.JSONSerializer", "DEFAULT_TIMEOUT": 60}
        settings.RQ_QUEUES = {"default": queue, "faults": queue}

    use(redis_url)
    django_rq.get_connection("faults").flushall()
    return use


def down(tmp_path):
    return f"unix://{tmp_path / 'nobody.sock'}?db=0"


def work():
    """Run every queued job in this process; return how many there were."""
    queue = django_rq.get_queue("faults")
    count = len(queue.job_ids)
    SimpleWorker([queue], connection=queue.connection, serializer=JSONSerializer).work(
        burst=True, logging_level="ERROR"
    )
    return count


@pytest.mark.django_db(transaction=True)
def test_a_committed_row_is_queued_by_the_process_that_commits_it(queues):
    with transaction.atomic():
        row = outbox.publish(JOB, 7)
        assert django_rq.get_queue("faults").job_ids == []
    [job] = django_rq.get_queue("faults").jobs
    assert (job.func_name, list(job.args)) == (JOB, [7])
    row.refresh_from_db()
    assert row.sent_at is not None


@pytest.mark.django_db(transaction=True)
def test_a_rolled_back_change_queues_nothing(queues):
    with transaction.atomic():
        outbox.publish(JOB, 7)
        transaction.set_rollback(True)
    assert django_rq.get_queue("faults").job_ids == []
    assert not Outbox.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_redis_outage_delays_a_job_and_loses_none(queues, redis_url, tmp_path, caplog):
    queues(down(tmp_path))
    with transaction.atomic():
        outbox.publish(JOB, 7)
        outbox.publish(JOB, 8)
    assert "waits in the outbox" in caplog.text
    later = timezone.now() + timedelta(seconds=2)
    assert outbox.sweep(later) == 0

    queues(redis_url)
    assert outbox.sweep(later) == 2
    assert outbox.sweep(later) == 0
    assert [list(job.args) for job in django_rq.get_queue("faults").jobs] == [[7], [8]]


@pytest.mark.django_db
def test_the_sweep_leaves_fresh_rows_to_the_process_that_wrote_them(queues):
    row = Outbox.objects.create(job=JOB, args=[7])
    assert outbox.sweep(row.created_at) == 0
    assert outbox.sweep(row.created_at + timedelta(seconds=1)) == 1


@pytest.mark.django_db(transaction=True)
def test_a_job_that_is_delivered_three_times_has_one_effect(queues, fault):
    for _ in range(3):
        with transaction.atomic():
            row = outbox.publish("faults.jobs.inject_run", fault.pk)
        outbox.begin(f"outbox-{row.pk}", timezone.now())
    assert work() == 3
    fault.refresh_from_db()
    assert fault.injected_at is not None
    assert fault.epoch == 3
    assert sorted(fault.steps.values_list("index", "status")) == [(0, "applied"), (1, "applied")]

    for _ in range(2):
        with transaction.atomic():
            row = outbox.publish(JOB, fault.pk)
        outbox.begin(f"outbox-{row.pk}", timezone.now())
    assert work() == 2
    fault.refresh_from_db()
    assert (fault.status, fault.residue) == (FaultRun.Status.REVERTED, [])


@pytest.mark.django_db
def test_a_job_whose_run_another_worker_has_ends_quietly(queues, fault, caplog):
    later = timezone.now() + timedelta(seconds=10)
    FaultRun.objects.filter(pk=fault.pk).update(lease_holder="other", lease_until=later)
    django_rq.get_queue("faults").enqueue("faults.jobs.inject_run", fault.pk)
    work()
    fault.refresh_from_db()
    assert fault.status == FaultRun.Status.PLANNED


@pytest.mark.django_db(transaction=True)
def test_a_job_that_waits_is_written_down_once_however_often_it_is_asked_for(queues):
    for _ in range(50):
        with transaction.atomic():
            row = outbox.publish(JOB, 7)
    assert Outbox.objects.count() == 1
    assert django_rq.get_queue("faults").job_ids == [f"outbox-{row.pk}"]


@pytest.mark.django_db(transaction=True)
def test_a_job_that_no_worker_begins_is_relayed_again_less_and_less_often(queues):
    """A Redis that was emptied has forgotten the queue."""
    with transaction.atomic():
        row = outbox.publish(JOB, 7)
    now, relayed = timezone.now(), []
    for seconds in range(0, 100, 2):
        django_rq.get_connection("faults").flushall()
        if outbox.sweep(now + timedelta(seconds=seconds)):
            relayed.append(seconds)
            Outbox.objects.update(sent_at=now + timedelta(seconds=seconds))
    assert relayed == [10, 30, 70]
    assert django_rq.get_queue("faults").job_ids == []
    outbox.begin(f"outbox-{row.pk}", now)
    assert outbox.sweep(now + timedelta(hours=1)) == 0


@pytest.mark.django_db(transaction=True)
def test_relaying_again_leaves_one_in_the_queue(queues):
    with transaction.atomic():
        row = outbox.publish(JOB, 7)
    outbox.relay(row)
    outbox.relay(row)
    assert django_rq.get_queue("faults").job_ids == [f"outbox-{row.pk}"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("stamp", ["created_at", "sent_at"])
def test_a_row_that_bears_a_time_of_tomorrow_is_relayed_now(queues, stamp):
    now = timezone.now()
    tomorrow = {stamp: now + timedelta(days=1)}
    Outbox.objects.create(job=JOB, args=[7], **{"created_at": now - timedelta(minutes=1), **tomorrow})
    assert outbox.sweep(now) == 1
