"""The status of a job, its pods as they are seen until the status says so, and the pods that it makes.

A failed pod is replaced after a pause: 10 s, doubling up to 10 min. Policies say what fails a job, an index of it or
nothing at all, and when enough is done; the completion indexes of Indexed jobs stand in the status as ``0,1,4-6``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubesim.conditions import condition_of, replaced, said
from kubesim.controllers import pods
from kubesim.controllers.base import is_ending
from kubesim.errors import Obj
from kubesim.times import parse, stamp

TRACKING = "batch.kubernetes.io/job-tracking"
PREFIX_LENGTH = 58
FIRST_S = 10.0
LONGEST_S = 600.0
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
UNKNOWN = -1
LARGEST = 2**31 - 1
LONGEST_RANGE = 40
"""Characters of a range of indexes; longer numbers are none of a job."""


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
    uncounted = [pod for pod in look.pods if is_tracked(pod) and is_valid(job, pod)]
    look.good = parse_indexes(look.status.get("completedIndexes", ""), completions)
    look.good |= {index_of(pod) for pod in uncounted if pods.phase_of(pod) == "Succeeded"}
    look.succeeded = len(look.good)
    if not per_index(job):
        return
    look.bad = parse_indexes(look.status.get("failedIndexes") or "", completions)
    look.bad |= {index_of(pod) for pod in uncounted if index_has_failed(job, pod)}
    settled = look.good | look.bad | {index_of(pod) for pod in look.active_pods}
    for pod in sorted(uncounted, key=all_failures):
        if has_failed(job, pod) and index_of(pod) not in settled:
            look.replaced[index_of(pod)] = pod


def is_tracked(pod: Obj) -> bool:
    """Whether the end of a pod waits to be counted."""
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def fresh(look: Look) -> tuple[list[Obj], list[Obj]]:
    """Return the pods that have succeeded and those that have failed, of which the status does not know yet."""
    known = uncounted(look.status)
    tracked = [pod for pod in look.pods if is_tracked(pod) and is_valid(look.job, pod)]
    succeeded = [pod for pod in tracked if pods.phase_of(pod) == "Succeeded"]
    failed = [pod for pod in tracked if has_failed(look.job, pod)]
    return _without(succeeded, known["succeeded"]), _without(failed, known["failed"])


def _without(found: list[Obj], uids: list[str]) -> list[Obj]:
    return [pod for pod in found if pod["metadata"]["uid"] not in uids]


def may_go(look: Look, pod: Obj) -> bool:
    """Whether a pod need not be kept any longer: it has ended, and no successor asks for its failures."""
    if is_ending(look.job) or look.decided is not None or pods.phase_of(pod) == "Succeeded":
        return True
    return has_failed(look.job, pod) and look.replaced.get(index_of(pod)) is not pod


def note_end(look: Look, pod: Obj) -> None:
    """Note the uid of a pod that has ended, until it is counted; successes of an index need no note."""
    known, uid = look.status["uncountedTerminatedPods"], pod["metadata"]["uid"]
    lost = look.decided is not None and look.decided[0] == "FailureTarget"
    if pods.phase_of(pod) == "Succeeded" and uid not in known["failed"]:
        if not is_indexed(look.job) and uid not in known["succeeded"]:
            known["succeeded"].append(uid)
    elif (has_failed(look.job, pod) or lost) and uid not in known["failed"] and _counts(look.job, pod):
        known["failed"].append(uid)


def _counts(job: Obj, pod: Obj) -> bool:
    return is_valid(job, pod) and judge(job, pod).counts


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
    end = f"-{index}-" if index != UNKNOWN else ""
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
    meta["labels"][INDEX] = str(index)
    meta["annotations"] = {**meta.get("annotations", {}), INDEX: str(index)}
    spec["hostname"] = f"{job}-{index}"
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
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
        return {FAILURES: "0"}
    counts = judge(job, replaced).counts
    failures = failures_of(replaced) + counts
    ignored = failures_of(replaced, IGNORED) + (not counts)
    shown = {FAILURES: str(failures)}
    return shown | ({IGNORED: str(ignored)} if ignored else {})


def own_backoff(replaced: Obj | None) -> Backoff:
    """Return the back-off of one index, of whose pods this one failed last."""
    if replaced is None:
        return Backoff()
    return Backoff(all_failures(replaced)).after([], [replaced])


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


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a failure policy on a pod: the rule's action, and the message of one that fails the job."""

    action: str = ""
    message: str = ""

    @property
    def counts(self) -> bool:
        """Tell whether the failure counts against the limits."""
        return self.action != "Ignore"


def judge(job: Obj, pod: Obj) -> Verdict:
    """Apply the first rule that a failed pod matches."""
    meta = pod["metadata"]
    name = f"{meta['namespace']}/{meta['name']}"
    for number, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        action, end = rule["action"], f"matching {rule['action']} rule at index {number}"
        if (codes := rule.get("onExitCodes")) is not None:
            status = _by_exit_code(pod, codes)
            if status is not None:
                code = status["state"]["terminated"]["exitCode"]
                text = f"Container {status['name']} for pod {name} failed with exit code {code} {end}"
                return Verdict(action, text if action == "FailJob" else "")
        elif (kind := _by_condition(pod, rule.get("onPodConditions") or [])) is not None:
            return Verdict(action, f"Pod {name} has condition {kind} {end}" if action == "FailJob" else "")
    return Verdict()


def _by_exit_code(pod: Obj, codes: Obj) -> Obj | None:
    status = pod.get("status", {})
    for found in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        ended = found.get("state", {}).get("terminated")
        if not ended or not ended["exitCode"] or codes.get("containerName", found["name"]) != found["name"]:
            continue
        if (ended["exitCode"] in codes["values"]) == (codes["operator"] == "In"):
            return dict(found)
    return None


def _by_condition(pod: Obj, patterns: list[Obj]) -> str | None:
    wanted = {(pattern["type"], pattern.get("status", "True")) for pattern in patterns}
    conditions = pod.get("status", {}).get("conditions") or ()
    return next((each["type"] for each in conditions if (each["type"], each["status"]) in wanted), None)


def only_failed_are_replaced(job: Obj) -> bool:
    """Tell whether a pod that is being deleted is replaced only when it has ended."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


def has_failed(job: Obj, pod: Obj) -> bool:
    """Tell whether a pod counts as failed: also one deleted before it could end, unless its end is waited for."""
    if pods.phase_of(pod) == "Failed":
        return True
    return not only_failed_are_replaced(job) and is_ending(pod) and pods.phase_of(pod) != "Succeeded"


def index_has_failed(job: Obj, pod: Obj) -> bool:
    """Tell whether a failed pod is the last one that its index may have."""
    if not has_failed(job, pod):
        return False
    verdict = judge(job, pod)
    limit = job["spec"]["backoffLimitPerIndex"]
    return verdict.action == "FailIndex" or (verdict.counts and failures_of(pod) >= limit)


def success(job: Obj, succeeded: set[int]) -> str:
    """Return the message of the first success rule that is met, nothing without one."""
    completions = job["spec"].get("completions") or 0
    for number, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        count, text = rule.get("succeededCount"), rule.get("succeededIndexes")
        wanted = parse_indexes(text, completions) if text is not None else set(range(completions))
        reached = len(wanted & succeeded)
        enough = count is not None and reached >= count
        if wanted and (enough or (text is not None and reached == len(wanted))):
            return f"Matched rules at index {number}"
    return ""


def parse_indexes(text: str, completions: int) -> set[int]:
    """Return the indexes below ``completions`` that a text names in their order; the rest of it names none."""
    found: set[int] = set()
    before = -1
    for part in text.split(","):
        first, _, last = part.partition("-")
        known = len(part) <= LONGEST_RANGE and first.isdecimal() and (last or first).isdecimal()
        if known and int(first) > before:
            before = int(last or first)
            found |= set(range(int(first), min(before, completions - 1) + 1))
    return found


def shown_indexes(indexes: Iterable[int]) -> str:
    """Return indexes as text; only three and more in a row become a range."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(a) if a == b else f"{a}{',' if b == a + 1 else '-'}{b}" for a, b in runs)


def is_indexed(job: Obj) -> bool:
    """Tell whether every completion of a job has a number of its own."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def per_index(job: Obj) -> bool:
    """Tell whether failures are counted for each index alone."""
    return job["spec"].get("backoffLimitPerIndex") is not None


def index_of(pod: Obj) -> int:
    """Return the index of a pod, UNKNOWN without one."""
    value = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(value) if value.isdecimal() else UNKNOWN


def is_valid(job: Obj, pod: Obj) -> bool:
    """Tell whether a pod counts: any pod, but of an Indexed job one with an index that the job has."""
    return not is_indexed(job) or UNKNOWN < index_of(pod) < job["spec"]["completions"]


def failures_of(pod: Obj, name: str = FAILURES) -> int:
    """Return how many predecessors of a pod failed, by its annotation; nonsense counts as none."""
    value = (pod["metadata"].get("annotations") or {}).get(name, "")
    return int(value) if value.isdecimal() and int(value) <= LARGEST else 0


def all_failures(pod: Obj) -> int:
    """Return how many predecessors failed, also those that a policy does not count."""
    return failures_of(pod) + failures_of(pod, IGNORED)


def pending(count: int, completions: int, taken: set[int]) -> list[int]:
    """Return the lowest ``count`` indexes that are not taken."""
    free = (index for index in range(completions) if index not in taken)
    return [index for index, _ in zip(free, range(count), strict=False)]


def for_removal(job: Obj, active: list[Obj], least: int) -> list[Obj]:
    """Return the pods that have to go: with an index that is not the job's or already held, and ``least`` in all."""
    gone: list[Obj] = []
    kept: dict[int, Obj] = {}
    ranked = sorted(active, key=pods.removal_rank)
    for pod in reversed(ranked) if is_indexed(job) else ():
        if is_valid(job, pod) and index_of(pod) not in kept:
            kept[index_of(pod)] = pod
        else:
            gone.append(pod)
    left = [pod for pod in ranked if pod not in gone]
    return gone + left[: max(0, least - len(gone))]
