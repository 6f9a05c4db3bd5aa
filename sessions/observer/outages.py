"""Notices that an environment stops answering and answers again, and that nobody was there to notice."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from faults.clock import boot_s
from faults.models import Lease
from sessions import services
from sessions.models import Outage

UNANSWERED = "the cluster did not answer"
ASLEEP = "the machine that runs Faultline slept"
NOT_RUNNING = "Faultline was not running"
SEEN = "observer:seen"
MAX_SLEEP_S = 2.0  # difference between the clock that counts sleep and the one that does not
MAX_ABSENCE = timedelta(seconds=15)
WRITE_EVERY, WRITE_IDLE_EVERY = timedelta(seconds=5), timedelta(seconds=30)
"""While nothing is open, nobody loses time, and each write makes every idle loop on this machine ask the database."""


class OutageWatch:
    """Follows one session's environment. The ledger in the database tells what is open, also after a restart."""

    def __init__(self, session_id: int) -> None:
        self._session_id = session_id
        self._is_open = Outage.objects.filter(session_id=session_id, ended_at__isnull=True).exists()

    def look(self, silence: tuple[datetime, str] | None, is_known: bool, now: datetime) -> None:
        """Open or close the outage. ``is_known`` says that the environment was listed at least once."""
        if silence is not None and not self._is_open:
            self._is_open = services.begin_outage(session_id=self._session_id, at=silence[0], reason=UNANSWERED)
        elif silence is None and is_known and self._is_open:
            services.end_outage(session_id=self._session_id, at=now)
            self._is_open = False


class AbsenceWatch:
    """Finds, from the active observer's own traces, times in which the whole installation stood still.

    A laptop that slept is told by two clocks, of which one goes on meanwhile. A gap since the last observer's trace
    is told by the row it left. The process itself being stopped is neither, since the candidate could go on.
    """

    def __init__(
        self,
        now: Callable[[], datetime],
        steady: Callable[[], float] = boot_s,
        awake: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._steady = steady
        self._awake = awake
        self._last: tuple[datetime, float, float] | None = None
        self._written: datetime | None = None

    def look(self, *, is_idle: bool = False) -> None:
        """Compare with the last look, and leave a trace, seldom while nothing is open (``is_idle``)."""
        now, steady, awake = self._now(), self._steady(), self._awake()
        if self._last is None:
            self._look_back(now)
        elif (steady - self._last[1]) - (awake - self._last[2]) > MAX_SLEEP_S:
            services.note_absence(began_at=self._last[0], ended_at=now, reason=ASLEEP)
        self._last = (now, steady, awake)
        pause = WRITE_IDLE_EVERY if is_idle else WRITE_EVERY
        if self._written is None or abs(now - self._written) >= pause:
            Lease.objects.update_or_create(name=SEEN, defaults={"until": now})
            self._written = now

    def _look_back(self, now: datetime) -> None:
        seen = Lease.objects.filter(name=SEEN).values_list("until", flat=True).first()
        if seen is not None and now - seen > MAX_ABSENCE:
            services.note_absence(began_at=seen, ended_at=now, reason=NOT_RUNNING)
