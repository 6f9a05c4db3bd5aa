"""Hands frames to the web processes. Redis being away is not an error here: the caller keeps what was not sent."""

from __future__ import annotations

import logging

from redis.exceptions import RedisError

from sessions import frames, live
from sessions.frames import Frame

log = logging.getLogger(__name__)


class Publisher:
    """Publishes frames over this process's connections to Redis, and logs once that Redis is away or back."""

    def __init__(self) -> None:
        self._well = True

    def last_seq(self, uuid: str, role: str) -> int | None:
        """Return the number of a screen's newest frame (0 where there is none), or None while Redis is away."""
        try:
            return frames.last_seq(live.client(), uuid, role)
        except (RedisError, OSError) as exc:
            self._away(exc)
            return None

    def publish(self, uuid: str, role: str, frame: Frame) -> int | None:
        """Keep and send a frame; return the number that Redis knew before, or None where it did not take it."""
        try:
            before = frames.publish(live.client(), uuid, role, frame)
        except (RedisError, OSError) as exc:
            self._away(exc)
            return None
        if not self._well:
            log.info("Redis is back: panels are published again")
            self._well = True
        return before

    def sign_of_life(self) -> None:
        """Tell the web processes that an observer keeps the panels current."""
        try:
            frames.sign_of_life(live.client())
        except (RedisError, OSError) as exc:
            self._away(exc)

    def _away(self, exc: Exception) -> None:
        if self._well:
            log.warning("Redis cannot be reached, panels wait: %s", exc)
        self._well = False
