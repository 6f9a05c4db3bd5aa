"""The worker that the settings name."""

import pytest
import redis
from django_rq.workers import get_worker_class
from rq import Queue
from rq.serializers import JSONSerializer

from interview_site.worker import Worker


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
