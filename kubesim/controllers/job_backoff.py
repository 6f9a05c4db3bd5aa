"""How long a job waits before it replaces a failed pod: 10 s after the first failure, doubling up to 10 min."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from kubesim.conditions import condition_of
from kubesim.errors import Obj
from kubesim.times import parse

FIRST_S = 10.0
LONGEST_S = 600.0


@dataclass(frozen=True, slots=True)
class Backoff:
    """The failures since the last success, and when the last of them was."""

    failures: int = 0
    at: datetime | None = None

    def after(self, succeeded: list[Obj], failed: list[Obj]) -> Backoff:
        """Return what it becomes with the pods that have ended since."""
        since = max((ended_at(pod) for pod in succeeded), default=None)
        times = sorted(at for at in map(ended_at, failed) if since is None or at > since)
        before = self if since is None else Backoff()
        return Backoff(before.failures + len(times), times[-1] if times else before.at)

    def remaining(self, now: datetime) -> float:
        """Return the seconds until a pod may be created."""
        if not self.failures or self.at is None:
            return 0.0
        delay = min(FIRST_S * 2.0 ** min(self.failures - 1, 30), LONGEST_S)
        return max(0.0, delay - (now - self.at).total_seconds())


def ended_at(pod: Obj) -> datetime:
    """Return when a pod ended: by its containers, else by its conditions, its deletion or its creation."""
    status, meta = pod.get("status", {}), pod["metadata"]
    sidecars = {each["name"] for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy")}
    init = [each for each in status.get("initContainerStatuses") or () if each["name"] in sidecars]
    ends = [each.get("state", {}).get("terminated") for each in (*(status.get("containerStatuses") or ()), *init)]
    if ends and all(end and end.get("finishedAt") for end in ends):
        return max(parse(end["finishedAt"]) for end in ends)
    ready = condition_of(status, "Ready")
    if ready.get("status") == "False" and ready.get("lastTransitionTime"):
        return parse(ready["lastTransitionTime"])
    if meta.get("deletionTimestamp"):
        return parse(meta["deletionTimestamp"]) - timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0)
    return parse(meta["creationTimestamp"])
