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

    def shown(self) -> Obj:
        """Return it with RFC 3339 times."""
        return {"first": micro(self.first), "last": micro(self.last), "requests": self.requests}


class Activity:
    """Counts requests by user name."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._users: dict[str, Usage] = {}
        self._changed: set[str] = set()

    def note(self, user: str) -> bool:
        """Count one request; returns whether it is the user's first."""
        now = self._clock.now()
        new = user not in self._users
        usage = self._users.setdefault(user, Usage(now, now))
        usage.last = now
        usage.requests += 1
        self._changed.add(user)
        return new

    def report(self) -> Obj:
        """Return everything, with RFC 3339 times."""
        return {name: usage.shown() for name, usage in sorted(self._users.items())}

    def changes(self) -> Obj:
        """Return what has changed since the last call, as ``restore`` takes it."""
        changed, self._changed = self._changed, set()
        return {name: self._users[name].shown() for name in changed}

    def restore(self, report: Obj) -> None:
        """Take up an earlier ``report``."""
        for name, entry in report.items():
            first, last = parse_time(entry["first"]), parse_time(entry["last"])
            if first is not None and last is not None:
                self._users[name] = Usage(first, last, int(entry["requests"]))
