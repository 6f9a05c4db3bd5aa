"""Hold time of failing checks: a failure counts once it has lasted. Pure: time comes in as a value.

A cluster that comes back from an outage, or an observer that has just started, sees pods that are not ready yet. So
nothing counts as failing during a grace period after an error, a gap between two looks, or a restart; and outside of
it only what has failed without a break for the check's hold time.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from faults.checks.evaluation import Verdict

DEFAULT_HOLD_S = 10.0  # for guards and checks that name no hold time of their own
GRACE = timedelta(seconds=30)
MAX_GAP = timedelta(seconds=15)  # between two looks of an observer that works


@dataclass(frozen=True, slots=True)
class Failure:
    """Since when a check has failed without a break, when that began to count, and until when nothing counts."""

    failing_since: datetime | None = None
    failed_at: datetime | None = None
    grace_until: datetime | None = None


def judge_failure(
    before: Failure, verdict: Verdict, now: datetime, *, last_look: datetime | None, hold_s: float
) -> Failure:
    """Return the failure after one more verdict. An error ends no failure that counts, and starts none."""
    grace_until = _grace_until(before, verdict, now, last_look)
    if verdict == "error":
        return Failure(None, before.failed_at, grace_until)
    if verdict != "fail":
        return Failure(None, None, grace_until)
    if before.failed_at is not None:
        return Failure(before.failing_since or now, before.failed_at, grace_until)
    if grace_until is not None:
        return Failure(None, None, grace_until)
    since = min(before.failing_since or now, now)
    counts = now - since >= timedelta(seconds=hold_s or DEFAULT_HOLD_S)
    return Failure(since, now if counts else None, None)


def _grace_until(before: Failure, verdict: Verdict, now: datetime, last_look: datetime | None) -> datetime | None:
    gap = last_look is not None and now - last_look > MAX_GAP
    if verdict == "error" or gap:
        return now + GRACE
    return before.grace_until if before.grace_until is not None and before.grace_until > now else None
