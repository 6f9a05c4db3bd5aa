"""The pods that jobs make."""

from __future__ import annotations

from kubesim.controllers import job_indexes, job_policies, pods
from kubesim.controllers.job_backoff import Backoff
from kubesim.controllers.job_indexes import per_index
from kubesim.controllers.job_status import TRACKING, Look
from kubesim.errors import Obj

PREFIX_LENGTH = 58


def pod_of(look: Look, index: int) -> Obj:
    """Return a new pod of a job; one with an index says so in its name, labels, annotations and environment."""
    job = look.job
    end = f"-{index}-" if index != job_indexes.UNKNOWN else ""
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
    meta["labels"][job_indexes.INDEX] = str(index)
    meta["annotations"] = {**meta.get("annotations", {}), job_indexes.INDEX: str(index)}
    spec["hostname"] = f"{job}-{index}"
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{job_indexes.INDEX}']"}}
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
        return {job_indexes.FAILURES: "0"}
    counts = job_policies.judge(job, replaced).counts
    failures = job_indexes.failures_of(replaced) + counts
    ignored = job_indexes.failures_of(replaced, job_indexes.IGNORED) + (not counts)
    shown = {job_indexes.FAILURES: str(failures)}
    return shown | ({job_indexes.IGNORED: str(ignored)} if ignored else {})


def own_backoff(replaced: Obj | None) -> Backoff:
    """Return the back-off of one index, of whose pods this one failed last."""
    if replaced is None:
        return Backoff()
    return Backoff(job_indexes.all_failures(replaced)).after([], [replaced])
