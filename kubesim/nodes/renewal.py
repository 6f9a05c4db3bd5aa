"""Certificates end: each is asked for anew when four fifths of its time are over, as a kubelet does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime

from cryptography import x509

from kubesim.clock import Clock
from kubesim.errors import ApiError
from kubesim.informer import cancel
from kubesim.nodes.certificates import NotSigned

SHARE = 0.8
SHORTEST_S, LONGEST_S = 60.0, 30 * 24 * 3600.0
"""The waits before a try: not longer than a month, for the sake of the clock's own precision."""
log = logging.getLogger(__name__)


def end_of(pem: bytes) -> datetime:
    """Return when a certificate ends."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc


class Renewal:
    """Calls ``renew``, which returns the next end, in time before ``until``; a failure is tried again."""

    def __init__(self, clock: Clock, until: datetime, renew: Callable[[], Awaitable[datetime]]) -> None:
        self._clock = clock
        self._renew = renew
        self._task = asyncio.create_task(self._run(until), name="renewal")

    async def stop(self) -> None:
        """Renew no more."""
        await cancel(self._task)

    async def _run(self, until: datetime) -> None:
        while True:
            due = (until - self._clock.now()).total_seconds() * SHARE
            await self._clock.sleep(min(max(due, SHORTEST_S), LONGEST_S))
            if due > LONGEST_S:
                continue
            try:
                until = await self._renew()
            except (ApiError, ConnectionError, NotSigned) as error:
                log.warning("a certificate was not renewed: %s", error)
