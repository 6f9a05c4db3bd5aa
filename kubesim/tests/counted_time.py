"""Time that is counted rather than measured, so that what a test sees of it is the same on every machine."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from kubesim.shell import share

T = TypeVar("T")


class CountedTime(selectors.DefaultSelector):
    """The time of an event loop: each look at a clock is half a millisecond of computing, and waiting leaps."""

    LOOK_S = 0.0005

    def __init__(self) -> None:
        super().__init__()
        self.computed = self.waited = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.waited += timeout or 0.0
        return super().select(0)

    def thread_time(self) -> float:
        self.computed += self.LOOK_S
        return self.computed

    def perf_counter(self) -> float:
        return self.thread_time() + self.waited


def run(main: Coroutine[Any, Any, T], monkeypatch: pytest.MonkeyPatch) -> T:
    """Run to the end on an event loop of its own, whose containers are paced by the same time."""
    time = CountedTime()
    loop = asyncio.SelectorEventLoop(time)
    monkeypatch.setattr(loop, "time", time.perf_counter)
    monkeypatch.setattr(share, "time", time)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)
