"""The rules of deployments, replica sets and jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesim.admission.validation.metadata import annotation_errors, label_errors
from kubesim.admission.validation.pods import spec_errors
from kubesim.api.selectors import from_struct
from kubesim.api.status import FieldError, invalid_value, required, unsupported
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

NOT_NEGATIVE = "must be greater than or equal to 0"
COUNTS = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
JOB_COUNTS = (
    *("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"),
    *("backoffLimitPerIndex", "maxFailedIndexes"),
)
JOB_LABELS = {
    "controller-uid": "uid",
    "job-name": "name",
    "batch.kubernetes.io/controller-uid": "uid",
    "batch.kubernetes.io/job-name": "name",
}
"""The labels of a job's pods, and the field of its metadata that each repeats."""
PLACING = ("affinity", "nodeSelector", "tolerations", "schedulingGates")


def deployment_errors(obj: Obj) -> list[FieldError]:
    """Return what is wrong with a Deployment."""
    spec = obj.get("spec") or {}
    errors = [*_count_errors(spec, COUNTS), *selector_errors(spec, "deployment"), *always_errors(spec)]
    strategy = spec.get("strategy", {})
    if strategy.get("type") not in ("Recreate", "RollingUpdate"):
        errors.append(unsupported("spec.strategy.type", strategy.get("type", ""), ("Recreate", "RollingUpdate")))
    if strategy.get("type") == "Recreate" and strategy.get("rollingUpdate"):
        why = "Forbidden: may not be specified when strategy `type` is 'Recreate'"
        errors.append(FieldError("spec.strategy.rollingUpdate", "FieldValueForbidden", why))
    rolling = strategy.get("rollingUpdate", {})
    if rolling and _zero(rolling.get("maxUnavailable")) and _zero(rolling.get("maxSurge")):
        path, why = "spec.strategy.rollingUpdate.maxUnavailable", "may not be 0 when `maxSurge` is 0"
        errors.append(invalid_value(path, rolling["maxUnavailable"], why))
    return errors


def replicaset_errors(obj: Obj) -> list[FieldError]:
    """Return what is wrong with a ReplicaSet."""
    spec = obj.get("spec") or {}
    return [*_count_errors(spec, COUNTS), *selector_errors(spec, "deployment"), *always_errors(spec)]


def job_errors(obj: Obj) -> list[FieldError]:
    """Return what is wrong with a Job."""
    spec = obj.get("spec") or {}
    labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
    errors = [*_generated_errors(obj, labels), *_count_errors(spec, JOB_COUNTS), *_indexed_errors(spec)]
    errors += template_errors(spec)
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy")
    path = "spec.template.spec.restartPolicy"
    if policy == "Always":
        errors.append(required(path, 'valid values: "OnFailure", "Never"'))
    elif policy is not None and policy not in ("OnFailure", "Never"):
        errors.append(unsupported(path, policy, ("OnFailure", "Never")))
    elif policy != "Never" and spec.get("podFailurePolicy"):
        errors.append(invalid_value(path, policy, 'only "Never" is supported when podFailurePolicy is specified'))
    if not spec.get("selector"):
        errors += [required("spec.selector"), _mismatch(labels or None)]
    else:
        errors += _match_errors(spec["selector"], spec)
    return errors


def _generated_errors(obj: Obj, labels: Obj) -> Iterator[FieldError]:
    """A job that does not choose its pods itself has the labels and the selector that were made for it."""
    spec = obj.get("spec") or {}
    if spec.get("manualSelector") or not spec.get("selector"):
        return
    metadata = obj["metadata"]
    for name, value in JOB_LABELS.items():
        path, wanted = f"spec.template.metadata.labels[{name}]", metadata.get(value, "")
        if name not in labels:
            yield required(path, f"must be '{wanted}'")
        elif labels[name] != wanted:
            yield invalid_value(path, labels, f"must be '{wanted}'")
    expected = {name: metadata.get(value, "") for name, value in JOB_LABELS.items()}
    if not from_struct(spec["selector"]).matches(expected):
        yield invalid_value("spec.selector", spec["selector"], "`selector` not auto-generated")


def _indexed_errors(spec: Obj) -> Iterator[FieldError]:
    """What only indexed jobs may have, and what they must have."""
    mode = spec.get("completionMode")
    if mode not in ("NonIndexed", "Indexed"):
        yield unsupported("spec.completionMode", mode, ("Indexed", "NonIndexed"))
    elif mode == "Indexed":
        if spec.get("completions") is None:
            yield required("spec.completions", "when completion mode is Indexed")
    else:
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                yield invalid_value(f"spec.{name}", spec[name], "requires indexed completion mode")


def may_change(kind: Kind, path: tuple[str, ...], before: Any, after: Any, old: Obj) -> bool:
    """Tell whether an immutable field is free now.

    A suspended job that has never started can be sent to other nodes, and an indexed one can change its completions.
    """
    if kind.resource != "jobs.batch":
        return False
    if path == ("spec", "template"):
        free = bool(old["spec"].get("suspend")) and not old.get("status", {}).get("startTime")
        return free and _unplaced(before) == _unplaced(after)
    return path == ("spec", "completions") and old["spec"].get("completionMode") == "Indexed"


def _unplaced(template: Obj) -> Obj:
    """Return a pod template without what says where its pods may run."""
    spec = {name: value for name, value in template.get("spec", {}).items() if name not in PLACING}
    others = {name: value for name, value in template.get("spec", {}).get("affinity", {}).items() if value}
    others.pop("nodeAffinity", None)
    metadata = {k: v for k, v in template.get("metadata", {}).items() if k not in ("labels", "annotations")}
    return {"metadata": metadata, "spec": spec, "affinity": others}


def _count_errors(spec: Obj, names: tuple[str, ...]) -> Iterator[FieldError]:
    for name in names:
        if (value := spec.get(name)) is not None and value < 0:
            yield invalid_value(f"spec.{name}", value, NOT_NEGATIVE)


def selector_errors(spec: Obj, what: str) -> Iterator[FieldError]:
    """Yield what is wrong with a selector, and with the template that it must match."""
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
        yield _mismatch(spec.get("template", {}).get("metadata", {}).get("labels"))
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield invalid_value("spec.selector", selector, f"empty selector is invalid for {what}")
    else:
        yield from label_errors(selector.get("matchLabels"), "spec.selector.matchLabels")
        yield from _match_errors(selector, spec)
    yield from template_errors(spec)


def _match_errors(selector: Obj, spec: Obj) -> Iterator[FieldError]:
    labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
    try:
        matches = from_struct(selector).matches(labels)
    except ValueError as exc:
        yield invalid_value("spec.selector", selector, str(exc))
        return
    if not matches:
        yield _mismatch(labels or None)


def _mismatch(labels: Obj | None) -> FieldError:
    return invalid_value("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def template_errors(spec: Obj, path: str = "spec") -> Iterator[FieldError]:
    """Yield what is wrong with a pod template."""
    template = spec.get("template") or {}
    metadata = template.get("metadata", {})
    yield from label_errors(metadata.get("labels"), f"{path}.template.labels")
    yield from annotation_errors(metadata.get("annotations"), f"{path}.template.annotations")
    yield from spec_errors(template.get("spec", {}), f"{path}.template.spec")


def always_errors(spec: Obj) -> Iterator[FieldError]:
    """Yield an error where a template's pods would end by themselves."""
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy")
    if policy in ("OnFailure", "Never"):
        yield unsupported("spec.template.spec.restartPolicy", policy, ("Always",))


def _zero(value: object) -> bool:
    return value in (0, "0%", "0")
