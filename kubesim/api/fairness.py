"""Keeps one user from slowing the host down for everybody: requests, bytes and streams are rationed for each user.

A real API server does it with priority and fairness. Who is over their share is told to come back in a second (429
with Retry-After), which kubectl and client-go do by themselves. Administrators are not rationed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from kubesim.auth.users import MASTERS, User
from kubesim.clock import Clock
from kubesim.errors import ApiError

RATE, BURST = 100.0, 400.0  # requests a second, and at once; kubectl itself keeps to 50 and 300
BYTES_PER_REQUEST = 64 * 1024  # a longer answer counts as several requests
MAX_STREAMS = 100  # watches and followed logs at a time
LONGEST_PAUSE = 1.0


@dataclass(slots=True)
class Share:
    """What a user has left: tokens as of a moment (below zero: a debt), and open streams."""

    at: datetime
    tokens: float = BURST
    streams: int = 0


class Fairness:
    """The shares of one cluster's users."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shares: dict[str, Share] = {}

    def admit(self, user: User) -> None:
        """Count a request. Raises 429 for a user who has nothing left."""
        if MASTERS in user.groups:
            return
        share = self._share(user)
        if share.tokens < 1:
            raise _too_many("Too many requests, please try again later.")
        share.tokens -= 1

    def charge(self, user: User, size: int) -> float:
        """Count the bytes of a body or an answer; return the seconds that a stream has to pause before its next."""
        if MASTERS in user.groups:
            return 0.0
        share = self._share(user)
        share.tokens -= size / BYTES_PER_REQUEST
        return min(LONGEST_PAUSE, max(0.0, -share.tokens / RATE))

    @contextmanager
    def stream(self, user: User) -> Iterator[None]:
        """Hold one of the user's streams. Raises 429 where all are open."""
        if MASTERS in user.groups:
            yield
            return
        share = self._share(user)
        if share.streams >= MAX_STREAMS:
            raise _too_many("Too many watches and log streams are open, please try again later.")
        share.streams += 1
        try:
            yield
        finally:
            share.streams -= 1

    def _share(self, user: User) -> Share:
        now = self._clock.now()
        share = self._shares.setdefault(user.name, Share(now))
        share.tokens = min(BURST, share.tokens + (now - share.at).total_seconds() * RATE)
        share.at = now
        return share


def _too_many(message: str) -> ApiError:
    return ApiError(429, "TooManyRequests", message, {"retryAfterSeconds": 1})
