"""The worker that the settings name, and the lanes of the worker process."""

from __future__ import annotations

import threading
from uuid import uuid4

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
def queue(connection):
    """A queue from which no lane takes that an earlier test has stopped."""
    return Queue(uuid4().hex, connection=connection, serializer=JSONSerializer)


@pytest.fixture
def lanes(redis_url, queue):
    """Up to four lanes of this process, with a client of their own that nobody closes while they read from it."""
    client = redis.from_url(redis_url)

    def make() -> Lane:
        own = Queue(queue.name, connection=client, serializer=JSONSerializer)
        return Lane([own], connection=client)

    HANGING.clear()
    lanes = Lanes(4, make, idle_s=1)
    yield lanes
    HANGING.set()
    lanes.close(2)


@pytest.mark.django_db(transaction=True)
def test_a_job_that_hangs_leaves_another_lane_to_the_others(queue, lanes):
    for number in range(2):
        queue.enqueue(f"{__name__}.hang", number)
    lanes.start()
    for _ in range(2):
        assert STARTED.acquire(timeout=60)


def test_a_lane_that_is_stopped_before_it_begins_is_not_known_to_redis(queue, connection):
    lane = Lane([queue], connection=connection)
    lane.stop()
    lane.register_birth()
    assert Worker.count(queue=queue) == 0


@pytest.mark.django_db(transaction=True)
def test_lanes_are_made_while_all_are_at_work_and_end_when_they_have_nothing_to_do(queue, lanes):
    before = _lane_threads()
    lanes.start()
    kept = _lane_threads() - before
    assert len(lanes) == len(kept) == 2
    for number in range(5):
        queue.enqueue(f"{__name__}.hang", number)
    for _ in range(4):
        assert STARTED.acquire(timeout=60)
    assert len(lanes) == 4
    assert queue.count == 1, "four jobs at a time, and no more"
    HANGING.set()
    assert STARTED.acquire(timeout=60)
    made = _lane_threads() - before - kept
    assert len(made) == 2
    for thread in made:
        thread.join(60)
        assert not thread.is_alive()
    assert len(lanes) == 2
    assert Worker.count(queue=queue) == 2


def _lane_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("lane ")}


@pytest.mark.django_db(transaction=True)
def test_a_lane_notes_what_it_has_begun(queue, lanes):
    row = Outbox.objects.create(job=f"{__name__}.hang", args=[1])
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
