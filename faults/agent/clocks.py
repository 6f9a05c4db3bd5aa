"""Clocks of a node: deadlines count from its boot, so that nobody moves them by setting the time."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
SPIN_NS = 200_000
"""The kernel wakes a sleeper about so much too late; the driver's lines are microseconds apart."""


class NodeClock:
    """The time since the node's boot, and that of day."""

    def __init__(self) -> None:
        self.boot_id = BOOT_ID.read_text(encoding="ascii").strip()
        self._booted = datetime.now(UTC) - timedelta(seconds=self.seconds())

    def seconds(self) -> float:
        """Return the seconds since boot, with those in which the machine was suspended."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def time_of_day(self, at: float) -> str:
        """Return a moment, given in seconds since boot, as people read it."""
        return (self._booted + timedelta(seconds=at)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def wait_until(self, due_ns: int) -> None:
        """Return when ``time.monotonic_ns()`` has come to a moment at most milliseconds ahead."""
        left = due_ns - time.monotonic_ns()
        if left > SPIN_NS:
            time.sleep((left - SPIN_NS) / 1e9)
        while time.monotonic_ns() < due_ns:
            pass
