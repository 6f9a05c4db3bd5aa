"""A word to the observer that a session has changed, so that it need not ask the database all the time.

Nothing depends on it: the observer looks by itself every second. So a Redis that is away or hangs costs whoever
changes a session next to nothing.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import redis
from django.conf import settings
from django.db import transaction
from redis.exceptions import RedisError

log = logging.getLogger(__name__)
CHANNEL = "faultline:changed"
TIMEOUT_S = 0.1
SILENT_S = 5.0  # after a failure nobody is told for so long
PAUSE_S = (0.25, 5.0)
LISTEN_S = 1.0
_quiet_until = 0.0


def on_commit() -> None:
    """Tell the observer once the present transaction has been committed."""
    transaction.on_commit(send)


def send() -> None:
    """Tell the observer now."""
    global _quiet_until
    if time.monotonic() < _quiet_until:
        return
    try:
        _client(settings.REDIS_URL).publish(CHANNEL, b"")
    except (RedisError, OSError) as exc:
        log.debug("Redis is away, the observer will look by itself: %s", exc)
        _quiet_until = time.monotonic() + SILENT_S


class Listener:
    """A thread that calls ``heard`` for every word; it goes on through outages of Redis."""

    def __init__(self, heard: Callable[[], None]) -> None:
        self._heard = heard
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nudges", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening; the thread ends within ``LISTEN_S``."""
        self._stop.set()

    def _run(self) -> None:
        pause = PAUSE_S[0]
        while not self._stop.is_set():
            try:
                self._listen()
            except (RedisError, OSError) as exc:
                log.debug("Redis is away, nobody tells of changes: %s", exc)
            pause = min(PAUSE_S[1], random.uniform(PAUSE_S[0], pause * 3))
            self._stop.wait(pause)

    def _listen(self) -> None:
        with redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1.0) as client:
            channel = client.pubsub()
            channel.subscribe(CHANNEL)
            while not self._stop.is_set():
                if channel.get_message(timeout=LISTEN_S):
                    self._heard()
            channel.close()


@lru_cache(maxsize=4)
def _client(url: str) -> redis.Redis[Any]:
    return redis.Redis.from_url(url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)
