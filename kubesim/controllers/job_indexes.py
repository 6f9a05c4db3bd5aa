"""The completion indexes of Indexed jobs: as text in the status (``0,1,4-6``), on pods, and those still to run."""

from __future__ import annotations

from collections.abc import Iterable

from kubesim.controllers import pods
from kubesim.errors import Obj

INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"
UNKNOWN = -1
LARGEST = 2**31 - 1


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
