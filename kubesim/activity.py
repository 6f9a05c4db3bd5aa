"""Who has used a cluster: first and last request of every user, and how many."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kubesim.api.durations import parse_time
from kubesim.clock import Clock
from kubesim.errors import Obj
from kubesim.times import micro


@dataclass(slots=True)
class Usage:
    """One user's requests."""

    first: datetime
    last: datetime
    requests: int = 0


class Activity:
    """Counts requests by user name."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._users: dict[str, Usage] = {}

    def note(self, user: str) -> None:
        """Count one request."""
        now = self._clock.now()
        usage = self._users.setdefault(user, Usage(now, now))
        usage.last = now
        usage.requests += 1

    @property
    def known(self) -> int:
        """Return how many users there have been."""
        return len(self._users)

    def report(self) -> Obj:
        """Return everything, with RFC 3339 times."""
        return {
            name: {"first": micro(usage.first), "last": micro(usage.last), "requests": usage.requests}
            for name, usage in sorted(self._users.items())
        }

    def restore(self, report: Obj) -> None:
        """Take up an earlier ``report``."""
        for name, entry in report.items():
            first, last = parse_time(entry["first"]), parse_time(entry["last"])
            if first is not None and last is not None:
                self._users[name] = Usage(first, last, int(entry["requests"]))
