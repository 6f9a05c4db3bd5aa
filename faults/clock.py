"""Time is handed in, so that tests neither sleep nor guess."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What jobs need of time."""

    def now(self) -> datetime:
        """Return the current time, aware, in UTC."""

    def wait(self, seconds: float) -> None:
        """Return after ``seconds``."""


def now() -> datetime:
    """Return the current time, aware, in UTC."""
    return datetime.now(UTC)


class RealClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the machine's time."""
        return now()

    def wait(self, seconds: float) -> None:
        """Block this thread."""
        threading.Event().wait(seconds)
