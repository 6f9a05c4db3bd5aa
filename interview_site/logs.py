"""Log filters: events that are no failure, and tracebacks that tell no more than their last line."""

from __future__ import annotations

import logging

from redis.exceptions import ConnectionError as RedisConnectionError

REFUSED = (409, 422)


def no_probe(record: logging.LogRecord) -> bool:
    """Return whether a record tells of something else than "not ready", which is an answer and no failure."""
    return "/readyz" not in record.getMessage()


def no_refusal(record: logging.LogRecord) -> bool:
    """Return whether a record tells of something else than a refusal: input that is wrong, or that came too late.

    The person who sent it is told on the page; there is nothing for an operator to do.
    """
    return getattr(record, "status_code", None) not in REFUSED


def no_scanner(record: logging.LogRecord) -> bool:
    """Return whether a record tells of something else than bytes that are no HTTP: they are answered with 400."""
    return record.msg != "Invalid HTTP request received."


def brief(record: logging.LogRecord) -> bool:
    """Shorten a lost connection to Redis to one line: the libraries connect again by themselves."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, RedisConnectionError):
        record.msg, record.args = f"{record.getMessage()} ({error})", ()
        record.exc_info = record.exc_text = None
    return True
