"""When pods of a job fail it, an index of it, or nothing at all; and when enough of them have succeeded."""

from __future__ import annotations

from dataclasses import dataclass

from kubesim.controllers import job_indexes, pods
from kubesim.controllers.base import is_ending
from kubesim.errors import Obj


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
    return verdict.action == "FailIndex" or (verdict.counts and job_indexes.failures_of(pod) >= limit)


def success(job: Obj, succeeded: set[int]) -> str:
    """Return the message of the first success rule that is met, nothing without one."""
    completions = job["spec"].get("completions") or 0
    for number, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        count, text = rule.get("succeededCount"), rule.get("succeededIndexes")
        wanted = job_indexes.parse(text, completions) if text is not None else set(range(completions))
        reached = len(wanted & succeeded)
        enough = count is not None and reached >= count
        if wanted and (enough or (text is not None and reached == len(wanted))):
            return f"Matched rules at index {number}"
    return ""
