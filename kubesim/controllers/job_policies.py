"""Policies of jobs, and the completion indexes of Indexed ones (``0,1,4-6`` in the status).

They say what fails a job, an index of it or nothing at all, when enough is done, and which indexes are still to run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kubesim.controllers import pods
from kubesim.controllers.base import is_ending
from kubesim.errors import Obj

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
UNKNOWN = -1
LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the failure policy says of a failed pod: the rule's action, and the message of one that fails the job."""

    action: str = ""
    message: str = ""

    @property
    def counts(self) -> bool:
        """Whether the failure counts against the limits."""
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
    """Whether a pod that is being deleted is replaced only when it has ended."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


def has_failed(job: Obj, pod: Obj) -> bool:
    """Whether a pod counts as failed: also one that is deleted before it could end, unless its end is waited for."""
    if pods.phase_of(pod) == "Failed":
        return True
    return not only_failed_are_replaced(job) and is_ending(pod) and pods.phase_of(pod) != "Succeeded"


def index_has_failed(job: Obj, pod: Obj) -> bool:
    """Whether a failed pod is the last one that its index may have."""
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
        wanted = parse(text, completions) if text is not None else set(range(completions))
        reached = len(wanted & succeeded)
        enough = count is not None and reached >= count
        if wanted and (enough or (text is not None and reached == len(wanted))):
            return f"Matched rules at index {number}"
    return ""


def parse(text: str, completions: int) -> set[int]:
    """Return the indexes below ``completions`` that a text names; what makes no sense names none."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found |= set(range(int(first), min(int(last or first), completions - 1) + 1))
    return found


def shown(indexes: Iterable[int]) -> str:
    """Return indexes as text; only three and more in a row become a range."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(a) if a == b else f"{a}{',' if b == a + 1 else '-'}{b}" for a, b in runs)


def is_indexed(job: Obj) -> bool:
    """Whether every completion of a job has a number of its own."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def per_index(job: Obj) -> bool:
    """Whether failures are counted for each index alone."""
    return job["spec"].get("backoffLimitPerIndex") is not None


def index_of(pod: Obj) -> int:
    """Return the index of a pod, UNKNOWN without one."""
    value = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(value) if value.isdecimal() else UNKNOWN


def is_valid(job: Obj, pod: Obj) -> bool:
    """Whether a pod counts: any pod, but of an Indexed job one with an index that the job has."""
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
