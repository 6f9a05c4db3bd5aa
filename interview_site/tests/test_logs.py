"""A calm log."""

import logging
import sys

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from interview_site import logs


def record_of(error, message="Unexpected exception in %s"):
    try:
        raise error
    except type(error):
        return logging.LogRecord("x", logging.ERROR, __file__, 1, message, ("receive task",), sys.exc_info())


def test_a_lost_redis_is_one_line():
    record = record_of(RedisConnectionError("Connection closed by server."))
    assert logs.brief(record)
    assert record.getMessage() == "Unexpected exception in receive task (Connection closed by server.)"
    assert record.exc_info is None


def test_any_other_error_keeps_its_traceback():
    record = record_of(KeyError("x"))
    assert logs.brief(record)
    assert record.exc_info is not None


@pytest.mark.parametrize(("path", "told"), [("/readyz", False), ("/sessions/", True)])
def test_an_unready_probe_is_not_told(path, told):
    record = logging.LogRecord("django.request", logging.ERROR, __file__, 1, "%s: %s", ("Unavailable", path), None)
    assert logs.no_probe(record) is told


@pytest.mark.parametrize(("status", "told"), [(422, False), (409, False), (400, True), (500, True)])
def test_what_a_person_is_told_on_the_page_is_no_warning(status, told):
    record = logging.LogRecord("django.request", logging.WARNING, __file__, 1, "%s", ("Unprocessable Entity",), None)
    record.status_code = status
    assert logs.no_refusal(record) is told
