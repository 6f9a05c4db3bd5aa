"""The pauses between tries of one thing: exponential, with decorrelated jitter, and never less than Retry-After.

Callers that failed together must not come back together. Each pause is drawn between ``BASE_S`` and three times the
one before it, so that neither the first nor the tenth try of many callers falls into step with the others'
(Brooker, "Exponential Backoff And Jitter").
"""

from __future__ import annotations

import random
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

BASE_S = 0.5
MAX_PAUSE_S = 30.0
MAX_RETRY_AFTER_S = 300.0  # a server that asks for more is asked again all the same

_random = random.SystemRandom()


def next_pause(
    previous_s: float = 0.0,
    retry_after_s: float | None = None,
    *,
    base_s: float = BASE_S,
    max_s: float = MAX_PAUSE_S,
) -> float:
    """Return how many seconds to wait before the next try; ``previous_s`` is the pause before the last one."""
    drawn = _random.uniform(base_s, max(base_s, previous_s * 3)) if previous_s else base_s * _random.uniform(0.5, 1.5)
    return max(min(drawn, max_s), min(retry_after_s or 0.0, MAX_RETRY_AFTER_S))


def parse_retry_after(value: str, now: datetime | None = None) -> float | None:
    """Return the seconds that a Retry-After header asks for (RFC 9110: a number, or a date); None for neither."""
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        date = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (aware - (now or datetime.now(UTC))).total_seconds())
