"""Ctrl-C and SIGTERM as a question that is asked between two looks, so that nothing is torn in the middle."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def noticed() -> Iterator[Callable[[], bool]]:
    """Give a function that tells whether somebody asked us to stop. Main thread only."""
    asked: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        asked.append(number)

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
