"""Hold time of passing checks. Pure: time comes in as a value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from faults.checks.evaluation import Verdict


@dataclass(frozen=True, slots=True)
class Held:
    """Since when a check has passed without a break, and when that had lasted long enough."""

    passing_since: datetime | None = None
    held_at: datetime | None = None


def hold(previous: Held | None, verdict: Verdict, now: datetime, seconds: float) -> Held:
    """Return the new state after one verdict.

    A fail or a check that did not run starts over. An error is our own fault: what had held stays held, but time in
    which nothing was seen does not count towards holding.
    """
    before = previous or Held()
    if verdict == "error":
        return before if before.held_at else Held()
    if verdict != "pass":
        return Held()
    since = min(before.passing_since or now, now)  # a clock that was set back: it holds from now on
    if before.held_at is None and now - since >= timedelta(seconds=seconds):
        return Held(since, now)
    return Held(since, before.held_at)
