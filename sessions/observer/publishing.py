"""Hands rendered panels to the web processes: the newest frame into Redis, then one message to all."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from redis.exceptions import RedisError

from sessions import live
from sessions.live import Frame

log = logging.getLogger(__name__)
SEND_S = 2.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """A frame and who it is for."""

    uuid: str
    role: str
    panel: str
    frame: Frame

    def message(self) -> dict[str, object]:
        """Return what travels over the channel layer."""
        return {
            "type": live.MESSAGE_TYPE,
            "session": self.uuid,
            "role": self.role,
            "panel": self.panel,
            "seq": self.frame.seq,
            "html": self.frame.html,
        }


class Publisher:
    """Publishes frames. Redis being away is not an error here: the caller keeps what was not sent."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()  # a channel layer's connections belong to one event loop
        self._thread = threading.Thread(target=self._loop.run_forever, name="publisher", daemon=True)
        self._thread.start()
        self._well = True

    def last_seq(self, uuid: str, role: str, panel: str) -> int | None:
        """Return the number of the newest stored frame (0 where there is none), or None while Redis is away."""
        try:
            frame = live.load(live.client(), uuid, role, panel)
        except (RedisError, OSError) as exc:
            self._away(exc)
            return None
        return frame.seq if frame else 0

    def publish(self, deliveries: Sequence[Delivery]) -> bool:
        """Store and send frames in their order; False where Redis did not take all of them."""
        try:
            for each in deliveries:
                live.store(live.client(), each.uuid, each.role, each.panel, each.frame)
            asyncio.run_coroutine_threadsafe(self._send(deliveries), self._loop).result(SEND_S)
        except (RedisError, OSError, TimeoutError) as exc:
            self._away(exc)
            return False
        if not self._well:
            log.info("Redis is back: panels are published again")
            self._well = True
        return True

    def close(self) -> None:
        """Let the event loop and its connections go; a second time does nothing."""
        if self._loop.is_closed():
            return
        try:
            asyncio.run_coroutine_threadsafe(self._flush(), self._loop).result(SEND_S)
        except (RedisError, OSError, TimeoutError):
            log.debug("Redis was away when the publisher closed")
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SEND_S)
        self._loop.close()

    async def _send(self, deliveries: Sequence[Delivery]) -> None:
        layer = live.channel_layer()
        for each in deliveries:
            await layer.group_send(live.GROUP, each.message())

    async def _flush(self) -> None:
        await live.channel_layer().flush()

    def _away(self, exc: Exception) -> None:
        if self._well:
            log.warning("Redis cannot be reached, panels wait: %s", exc)
        self._well = False
