"""The worker that the settings name, and the lanes of the worker process."""

from __future__ import annotations

import threading

import pytest
import redis
from django_rq.workers import get_worker_class
from rq import Queue
from rq.serializers import JSONSerializer

from faults import outbox
from faults.models import Outbox
from interview_site.lanes import Lanes
from interview_site.worker import Lane, Worker


@pytest.fixture
def connection(redis_url):
    with redis.from_url(redis_url) as connection:
        connection.flushdb()
        yield connection
        connection.flushdb()


@pytest.fixture
def worker(connection):
    return Worker([Queue("default", connection=connection)], connection=connection)


def test_it_is_the_one_that_the_command_line_takes():
    assert get_worker_class() is Worker


def test_it_reads_json_whatever_is_asked(connection):
    queue = Queue("default", connection=connection)
    assert Worker([queue], connection=connection, serializer="pickle").serializer is JSONSerializer


def test_a_redis_that_has_forgotten_it_knows_it_after_a_heartbeat(worker, connection):
    worker.register_birth()
    connection.flushdb()
    assert Worker.count(connection=connection) == 0
    worker.heartbeat()
    assert Worker.count(connection=connection) == 1
    assert Worker.all(connection=connection)[0].queue_names() == ["default"]


HANGING, STARTED = threading.Event(), threading.Semaphore(0)


def hang(number: int) -> None:
    """Wait until the test lets go."""
    STARTED.release()
    HANGING.wait(120)


@pytest.fixture
def lanes(connection):
    """Two lanes of this process on the test's Redis."""

    def make() -> Lane:
        return Lane([Queue("default", connection=connection, serializer=JSONSerializer)], connection=connection)

    HANGING.clear()
    lanes = Lanes(1, make)
    yield lanes
    HANGING.set()
    lanes.close(2)


@pytest.mark.django_db(transaction=True)
def test_a_job_that_hangs_leaves_another_lane_to_the_others(connection, lanes):
    queue = Queue("default", connection=connection, serializer=JSONSerializer)
    for number in range(2):
        queue.enqueue(f"{__name__}.hang", number)
    lanes.start()
    for _ in range(2):
        assert STARTED.acquire(timeout=60)


@pytest.mark.django_db(transaction=True)
def test_a_lane_notes_what_it_has_begun(connection, lanes):
    row = Outbox.objects.create(job=f"{__name__}.hang", args=[1])
    queue = Queue("default", connection=connection, serializer=JSONSerializer)
    queue.enqueue(row.job, *row.args, job_id=f"outbox-{row.pk}")
    lanes.start()
    assert STARTED.acquire(timeout=60)
    assert not outbox.waits(row.job, 1)


@pytest.mark.django_db(transaction=True)
def test_a_lane_that_dies_is_started_again(connection):
    made = threading.Semaphore(0)

    def make() -> Lane:
        made.release()
        raise redis.ConnectionError("gone")

    lanes = Lanes(1, make)
    lanes.start()
    for _ in range(3):
        assert made.acquire(timeout=60)
    lanes.close(1)
