"""The status of a job, its pods as they are seen until the status says so, and the pods that it makes.

A failed pod is replaced after a pause: 10 s, doubling up to 10 min.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubesim.conditions import condition_of, replaced, said
from kubesim.controllers import job_policies, pods
from kubesim.controllers.base import is_ending
from kubesim.controllers.job_policies import index_of, is_indexed, per_index
from kubesim.errors import Obj
from kubesim.times import parse, stamp

TRACKING = "batch.kubernetes.io/job-tracking"
PREFIX_LENGTH = 58
FIRST_S = 10.0
LONGEST_S = 600.0


@dataclass
class Look:
    """One look at a job: its pods, what has come of them, and the status that will say so."""

    job: Obj
    status: Obj
    pods: list[Obj]
    active: int = 0
    ready: int = 0
    terminating: int = 0
    succeeded: int = 0
    failed: int = 0
    good: set[int] = field(default_factory=set)
    bad: set[int] = field(default_factory=set)
    replaced: dict[int, Obj] = field(default_factory=dict)
    """Failed pods, by index, that wait for their successor, which takes on their count of failures."""
    decided: tuple[str, str, str] | None = None
    """Type, reason and message of the condition that ends the job."""

    @property
    def active_pods(self) -> list[Obj]:
        """The pods that run or will."""
        return [pod for pod in self.pods if pods.is_active(pod)]


def look_at(job: Obj, owned: list[Obj]) -> Look:
    """Count the pods that a job owns."""
    status = {"succeeded": 0, "failed": 0, **job.get("status", {})}
    status["conditions"] = list(status.get("conditions") or ())
    status["uncountedTerminatedPods"] = {name: list(found) for name, found in uncounted(status).items()}
    look = Look(job, status, sorted(owned, key=index_of) if is_indexed(job) else owned)
    succeeded, failed = fresh(look)
    failed = [pod for pod in failed if _counts(job, pod)]
    look.active = len(look.active_pods)
    look.ready = sum(pods.ready_since(pod) is not None for pod in look.active_pods)
    look.terminating = sum(is_ending(pod) and pods.phase_of(pod) not in pods.ENDED for pod in owned)
    look.succeeded = status["succeeded"] + len(succeeded) + len(uncounted(status)["succeeded"])
    look.failed = status["failed"] + len(failed) + len(uncounted(status)["failed"])
    if is_indexed(job):
        _look_at_indexes(look)
    return look


def _look_at_indexes(look: Look) -> None:
    job, completions = look.job, look.job["spec"]["completions"]
    uncounted = [pod for pod in look.pods if is_tracked(pod) and job_policies.is_valid(job, pod)]
    look.good = job_policies.parse(look.status.get("completedIndexes", ""), completions)
    look.good |= {index_of(pod) for pod in uncounted if pods.phase_of(pod) == "Succeeded"}
    look.succeeded = len(look.good)
    if not per_index(job):
        return
    look.bad = job_policies.parse(look.status.get("failedIndexes") or "", completions)
    look.bad |= {index_of(pod) for pod in uncounted if job_policies.index_has_failed(job, pod)}
    settled = look.good | look.bad | {index_of(pod) for pod in look.active_pods}
    for pod in sorted(uncounted, key=job_policies.all_failures):
        if job_policies.has_failed(job, pod) and index_of(pod) not in settled:
            look.replaced[index_of(pod)] = pod


def is_tracked(pod: Obj) -> bool:
    """Whether the end of a pod waits to be counted."""
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def fresh(look: Look) -> tuple[list[Obj], list[Obj]]:
    """Return the pods that have succeeded and those that have failed, of which the status does not know yet."""
    known = uncounted(look.status)
    tracked = [pod for pod in look.pods if is_tracked(pod) and job_policies.is_valid(look.job, pod)]
    succeeded = [pod for pod in tracked if pods.phase_of(pod) == "Succeeded"]
    failed = [pod for pod in tracked if job_policies.has_failed(look.job, pod)]
    return _without(succeeded, known["succeeded"]), _without(failed, known["failed"])


def _without(found: list[Obj], uids: list[str]) -> list[Obj]:
    return [pod for pod in found if pod["metadata"]["uid"] not in uids]


def may_go(look: Look, pod: Obj) -> bool:
    """Whether a pod need not be kept any longer: it has ended, and no successor asks for its failures."""
    if is_ending(look.job) or look.decided is not None or pods.phase_of(pod) == "Succeeded":
        return True
    return job_policies.has_failed(look.job, pod) and look.replaced.get(index_of(pod)) is not pod


def note_end(look: Look, pod: Obj) -> None:
    """Note the uid of a pod that has ended, until it is counted; successes of an index need no note."""
    known, uid = look.status["uncountedTerminatedPods"], pod["metadata"]["uid"]
    lost = look.decided is not None and look.decided[0] == "FailureTarget"
    if pods.phase_of(pod) == "Succeeded" and uid not in known["failed"]:
        if not is_indexed(look.job) and uid not in known["succeeded"]:
            known["succeeded"].append(uid)
    elif (job_policies.has_failed(look.job, pod) or lost) and uid not in known["failed"] and _counts(look.job, pod):
        known["failed"].append(uid)


def _counts(job: Obj, pod: Obj) -> bool:
    return job_policies.is_valid(job, pod) and job_policies.judge(job, pod).counts


def uncounted(status: Obj) -> dict[str, list[str]]:
    """Return the uids of pods whose end is noted but not counted yet."""
    noted = status.get("uncountedTerminatedPods") or {}
    return {name: noted.get(name) or [] for name in ("succeeded", "failed")}


def count(status: Obj, tracked: set[str]) -> None:
    """Turn the noted uids of pods that are not tracked any more into numbers."""
    for name, uids in uncounted(status).items():
        kept = [uid for uid in uids if uid in tracked]
        status[name] += len(uids) - len(kept)
        status["uncountedTerminatedPods"][name] = kept


def shown(status: Obj) -> Obj:
    """Return the status as it is written: without what is nought or empty, unless it is always shown."""
    always = ("ready", "terminating", "failedIndexes")
    noted = {name: list(uids) for name, uids in uncounted(status).items() if uids}
    shown = {name: value for name, value in status.items() if value or name in always}
    return {**shown, "uncountedTerminatedPods": noted} | (
        {"conditions": list(status["conditions"])} if status["conditions"] else {}
    )


def condition(kind: str, reason: str, message: str, now: datetime, truth: str = "True") -> Obj:
    times = {"lastProbeTime": stamp(now), "lastTransitionTime": stamp(now)}
    return {"type": kind, "status": truth, **times, "reason": reason, "message": message}


def set_condition(status: Obj, kind: str, truth: str, reason: str, message: str, now: datetime) -> bool:
    """Set a condition; tells whether that changed anything. One that was never true does not become false."""
    old = condition_of(status, kind)
    if (not old and truth == "False") or said(old) == (truth, reason, message):
        return False
    status["conditions"] = replaced(status["conditions"], condition(kind, reason, message, now, truth))
    return True


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
