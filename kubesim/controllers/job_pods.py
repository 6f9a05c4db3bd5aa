"""The pods that jobs make, and the pause before a failed one is replaced: 10 s, doubling up to 10 min."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from kubesim.conditions import condition_of
from kubesim.controllers import job_policies, pods
from kubesim.controllers.job_policies import per_index
from kubesim.controllers.job_status import TRACKING, Look
from kubesim.errors import Obj
from kubesim.times import parse

PREFIX_LENGTH = 58
FIRST_S = 10.0
LONGEST_S = 600.0


def pod_of(look: Look, index: int) -> Obj:
    """Return a new pod of a job; one with an index says so in its name, labels, annotations and environment."""
    job = look.job
    end = f"-{index}-" if index != job_policies.UNKNOWN else ""
    name = job["metadata"]["name"]
    prefix = (name if len(name + end) <= PREFIX_LENGTH else name[: PREFIX_LENGTH - len(end)]) + end
    pod = pods.from_template(job, job["spec"]["template"], name=prefix if end else "")
    pod["metadata"]["finalizers"] = [*pod["metadata"].get("finalizers", ()), TRACKING]
    if end:
        _give_index(pod, name, index)
    if per_index(job):
        pod["metadata"]["annotations"] |= _failure_counts(job, look.replaced.get(index))
    return pod


def _give_index(pod: Obj, job: str, index: int) -> None:
    meta, spec = pod["metadata"], pod["spec"]
    meta["labels"][job_policies.INDEX] = str(index)
    meta["annotations"] = {**meta.get("annotations", {}), job_policies.INDEX: str(index)}
    spec["hostname"] = f"{job}-{index}"
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{job_policies.INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    for name in ("initContainers", "containers"):
        if spec.get(name):
            spec[name] = [_with_variable(each, variable) for each in spec[name]]


def _with_variable(container: Obj, variable: Obj) -> Obj:
    own = container.get("env") or []
    held = any(each["name"] == variable["name"] for each in own)
    return container if held else {**container, "env": [*own, variable]}


def _failure_counts(job: Obj, replaced: Obj | None) -> dict[str, str]:
    """Return the annotations that count the failures of an index, over to the pod that takes its next turn."""
    if replaced is None:
        return {job_policies.FAILURES: "0"}
    counts = job_policies.judge(job, replaced).counts
    failures = job_policies.failures_of(replaced) + counts
    ignored = job_policies.failures_of(replaced, job_policies.IGNORED) + (not counts)
    shown = {job_policies.FAILURES: str(failures)}
    return shown | ({job_policies.IGNORED: str(ignored)} if ignored else {})


def own_backoff(replaced: Obj | None) -> Backoff:
    """Return the back-off of one index, of whose pods this one failed last."""
    if replaced is None:
        return Backoff()
    return Backoff(job_policies.all_failures(replaced)).after([], [replaced])


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
