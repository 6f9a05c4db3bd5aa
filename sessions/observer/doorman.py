"""Cuts candidates off, and lets them in again, where the job that should do it is late.

The job is quicker as a rule, but it needs Redis and a worker with nothing else to do. A candidate must be out within
two seconds whatever the others are busy with.
"""

from __future__ import annotations

import logging
import threading

from django.db import OperationalError, connection

from faults.errors import ClusterError, FaultError
from sessions import services

log = logging.getLogger(__name__)
AT_ONCE = 16  # sessions being attended to; a cluster that hangs must not hold up the others


class Doorman:
    """Gives every session that needs it a thread of its own."""

    def __init__(self) -> None:
        self._busy: dict[int, threading.Thread] = {}

    def look(self) -> None:
        """Attend to the sessions whose candidate has more or less access than they should; returns at once."""
        self._busy = {pk: thread for pk, thread in self._busy.items() if thread.is_alive()}
        for pk in services.unsettled():
            if pk not in self._busy and len(self._busy) < AT_ONCE:
                self._busy[pk] = threading.Thread(target=_settle, args=(pk,), name=f"door {pk}", daemon=True)
                self._busy[pk].start()

    def wait(self, seconds: float) -> None:
        """Wait for what is under way, at most so many seconds for each."""
        for thread in self._busy.values():
            thread.join(seconds)


def _settle(session_id: int) -> None:
    try:
        services.sync_access(session_id=session_id)
    except (ClusterError, FaultError, OperationalError) as exc:
        log.warning("The access of session %s is changed at the next look: %s", session_id, exc)
    finally:
        connection.close()
