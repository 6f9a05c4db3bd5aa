"""Calls that keep a lease while requests to a cluster are under way.

Whoever holds a lease says so with ``beating``; the client calls ``beat`` before each try of a request. So a lease has
to outlast one try and not one phase, and a worker that was overtaken stops before it sends anything more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

EVERY_S = 1.0
_beats: ContextVar[tuple[Callable[[], None], ...]] = ContextVar("beats", default=())


@contextmanager
def beating(keep: Callable[[], None], every_s: float = EVERY_S) -> Iterator[None]:
    """Call ``keep`` before requests of this thread, once in ``every_s`` seconds at most; an error stops them."""
    last = time.monotonic()

    def keep_in_time() -> None:
        nonlocal last
        if time.monotonic() - last >= every_s:
            keep()
            last = time.monotonic()

    token = _beats.set((*_beats.get(), keep_in_time))
    try:
        yield
    finally:
        _beats.reset(token)


def beat() -> None:
    """Keep every lease that this thread holds."""
    for keep in _beats.get():
        keep()
