"""The rules of deployments, replica sets and jobs."""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.admission.validation.metadata import annotation_errors, label_errors
from kubesim.admission.validation.pods import spec_errors
from kubesim.api.selectors import from_struct
from kubesim.api.status import FieldError, invalid_value, required, unsupported
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

NOT_NEGATIVE = "must be greater than or equal to 0"
COUNTS = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
JOB_COUNTS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")


def deployment_errors(obj: Obj) -> list[FieldError]:
    """Return what is wrong with a Deployment."""
    spec = obj.get("spec") or {}
    errors = [*_count_errors(spec, COUNTS), *_selector_errors(spec, "deployment"), *_always_errors(spec)]
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
    return [*_count_errors(spec, COUNTS), *_selector_errors(spec, "deployment"), *_always_errors(spec)]


def job_errors(obj: Obj) -> list[FieldError]:
    """Return what is wrong with a Job."""
    spec = obj.get("spec") or {}
    errors = [*_count_errors(spec, JOB_COUNTS), *_template_errors(spec)]
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy")
    path = "spec.template.spec.restartPolicy"
    if policy == "Always":
        errors.append(required(path, 'valid values: "OnFailure", "Never"'))
    elif policy is not None and policy not in ("OnFailure", "Never"):
        errors.append(unsupported(path, policy, ("OnFailure", "Never")))
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        errors.append(required("spec.completions", "when completion mode is Indexed"))
    if not spec.get("selector"):
        errors.append(required("spec.selector"))
    return errors


def may_change(kind: Kind, path: tuple[str, ...], old: Obj) -> bool:
    """Tell whether an immutable field is free now: a suspended job that never started can be reshaped."""
    if kind.resource != "jobs.batch":
        return False
    if path == ("spec", "template"):
        return bool(old["spec"].get("suspend")) and not old.get("status", {}).get("startTime")
    return path == ("spec", "completions") and old["spec"].get("completionMode") == "Indexed"


def _count_errors(spec: Obj, names: tuple[str, ...]) -> Iterator[FieldError]:
    for name in names:
        if (value := spec.get(name)) is not None and value < 0:
            yield invalid_value(f"spec.{name}", value, NOT_NEGATIVE)


def _selector_errors(spec: Obj, what: str) -> Iterator[FieldError]:
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
        yield _mismatch(spec.get("template", {}).get("metadata", {}).get("labels"))
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield invalid_value("spec.selector", selector, f"empty selector is invalid for {what}")
    else:
        yield from label_errors(selector.get("matchLabels"), "spec.selector.matchLabels")
        yield from _match_errors(selector, spec)
    yield from _template_errors(spec)


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


def _template_errors(spec: Obj) -> Iterator[FieldError]:
    template = spec.get("template") or {}
    metadata = template.get("metadata", {})
    yield from label_errors(metadata.get("labels"), "spec.template.labels")
    yield from annotation_errors(metadata.get("annotations"), "spec.template.annotations")
    yield from spec_errors(template.get("spec", {}), "spec.template.spec")


def _always_errors(spec: Obj) -> Iterator[FieldError]:
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy")
    if policy in ("OnFailure", "Never"):
        yield unsupported("spec.template.spec.restartPolicy", policy, ("Always",))


def _zero(value: object) -> bool:
    return value in (0, "0%", "0")
