"""The kubelet's back-off: 10 s doubling to 5 min, forgotten 10 min after the last restart."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from kubesim.kubelet.timings import BACKOFF_CAP_S, BACKOFF_FIRST_S, BACKOFF_RESET_S
from kubesim.times import parse


@dataclass
class Backoff:
    """The wait between the tries of one container or one image: ``delay`` seconds, last used at ``used_at``."""

    delay: float = 0.0
    used_at: datetime | None = None

    def remaining(self, failed_at: datetime, now: datetime) -> float:
        """Return how many seconds a thing that failed at ``failed_at`` has still to wait; 0 for a first failure."""
        if self._forgotten(failed_at):
            return 0.0
        return max(0.0, self.delay - (now - failed_at).total_seconds())

    def next(self, failed_at: datetime, now: datetime) -> None:
        """Note that another try begins: a failure after it waits longer."""
        if self._forgotten(failed_at):
            self.delay = BACKOFF_FIRST_S
        else:
            self.delay = min(self.delay * 2, BACKOFF_CAP_S)
        self.used_at = now

    def _forgotten(self, failed_at: datetime) -> bool:
        return self.used_at is None or (failed_at - self.used_at).total_seconds() > BACKOFF_RESET_S

    def dump(self) -> dict[str, Any]:
        """Return what ``load`` takes."""
        return asdict(self)

    @classmethod
    def load(cls, data: dict[str, Any]) -> Backoff:
        """Rebuild from ``dump``, after a journey through JSON."""
        return cls(data["delay"], parse(data["used_at"]) if data["used_at"] else None)
