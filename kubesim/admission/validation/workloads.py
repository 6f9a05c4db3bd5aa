"""The rules of workloads that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubesim.admission.validation.metadata import annotation_errors, label_errors
from kubesim.admission.validation.rules import Place, check, check_of_missing, errors_of
from kubesim.api import cron
from kubesim.api.selectors import from_struct
from kubesim.api.status import FieldError, forbidden_field, invalid_value, required, unsupported
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

JOB_LABELS = {
    "controller-uid": "uid",
    "job-name": "name",
    "batch.kubernetes.io/controller-uid": "uid",
    "batch.kubernetes.io/job-name": "name",
}
"""The labels of a job's pods, and the field of its metadata that each repeats."""
PLACING = ("affinity", "nodeSelector", "tolerations", "schedulingGates")
UNCHANGED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
FREE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "minReadySeconds"),
    "persistentVolumeClaimRetentionPolicy",
)


@check
def selector(spec: Obj, where: str, place: Place, what: str) -> Iterator[FieldError]:
    """A selector, and the template that it must match."""
    found = spec.get("selector")
    if found is None:
        yield required("spec.selector")
        yield _mismatch(spec.get("template", {}).get("metadata", {}).get("labels"))
    elif not found.get("matchLabels") and not found.get("matchExpressions"):
        yield invalid_value("spec.selector", found, f"empty selector is invalid for {what}")
    else:
        yield from label_errors(found.get("matchLabels"), "spec.selector.matchLabels")
        yield from _match_errors(found, spec)


@check
def job_selector(spec: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A job's selector, which may be empty."""
    if spec.get("selector"):
        yield from _match_errors(spec["selector"], spec)
    else:
        yield required("spec.selector")
        yield _mismatch(spec.get("template", {}).get("metadata", {}).get("labels") or None)


@check
def map_selector(spec: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The labels that a replication controller looks for are those of its template."""
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if spec.get("template") and not (spec.get("selector") or {}).items() <= labels.items():
        yield _mismatch(labels or None)


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


@check_of_missing
def pod_template(value: Obj | None, where: str, place: Place) -> Iterator[FieldError]:
    """A pod template; the paths of its metadata are upstream's."""
    template = value or {}
    metadata = template.get("metadata", {})
    yield from label_errors(metadata.get("labels"), f"{where}.labels")
    yield from annotation_errors(metadata.get("annotations"), f"{where}.annotations")
    yield from errors_of("types", "PodSpec", Place(template.get("spec", {}), f"{where}.spec"))


@check
def template_with_claims(spec: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The template of a stateful set with a volume for each claim, as its pods will have it."""
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    names = [claim.get("metadata", {}).get("name", "") for claim in spec.get("volumeClaimTemplates") or ()]
    if names:
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
        kept = [volume for volume in pod.get("volumes") or () if volume.get("name") not in names]
        template = {**template, "spec": {**pod, "volumes": [*kept, *volumes]}}
    yield from pod_template(template, f"{where}.template", place)


@check
def stateful_strategy(strategy: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """How the pods of a stateful set are replaced."""
    shown = _shown(strategy, "partition", "maxUnavailable")
    if strategy.get("type") == "OnDelete" and strategy.get("rollingUpdate"):
        why = "only allowed for updateStrategy 'RollingUpdate'"
        yield invalid_value(f"{where}.rollingUpdate", shown["RollingUpdate"], why)
    elif strategy.get("type") not in ("OnDelete", "RollingUpdate"):
        yield invalid_value(where, shown, "must be 'RollingUpdate' or 'OnDelete'")


@check
def daemon_strategy(strategy: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """How the pods of a daemon set are replaced."""
    if strategy.get("type") not in ("OnDelete", "RollingUpdate"):
        yield unsupported(where, _shown(strategy, "maxUnavailable", "maxSurge"), ("RollingUpdate", "OnDelete"))


def _shown(strategy: Obj, *fields: str) -> Obj:
    """Return an update strategy as the API server has it in memory."""
    rolling = strategy.get("rollingUpdate")
    inner = {name[:1].upper() + name[1:]: rolling.get(name) for name in fields} if rolling else None
    return {"Type": strategy.get("type", ""), "RollingUpdate": inner}


def stateful_set_update_errors(old: Obj, new: Obj) -> list[FieldError]:
    """A stateful set keeps its selector, its service and its claims."""
    kept = [{k: v for k, v in obj["spec"].items() if k not in FREE} for obj in (old, new)]
    for spec in kept:
        spec["volumeClaimTemplates"] = [
            {name: value for name, value in template.items() if name != "status"}
            for template in spec.get("volumeClaimTemplates", ())
        ]
    return [] if kept[0] == kept[1] else [forbidden_field("spec", UNCHANGED)]


@check
def generated(obj: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A job that does not choose its pods itself has the labels and the selector that were made for it."""
    spec = obj.get("spec") or {}
    labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
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


@check
def schedule(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """The times of a cron job."""
    if "TZ" in value:
        yield invalid_value(where, value, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
    elif value:
        try:
            cron.parse(value)
        except cron.ScheduleError as error:
            yield invalid_value(where, value, str(error))


@check
def time_zone(zone: str, where: str, place: Place) -> Iterator[FieldError]:
    """The place whose clock a cron job goes by."""
    if zone == "":
        yield invalid_value(where, zone, "timeZone must be nil or non-empty string")
    elif zone.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield invalid_value(where, zone, why)
    else:
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            yield invalid_value(where, zone, f"unknown time zone {zone}")


@check
def budget(spec: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A budget says what must stay, or what may go."""
    if "minAvailable" in spec and "maxUnavailable" in spec:
        names = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
        shown = {name[:1].upper() + name[1:]: spec.get(name) for name in names}
        yield invalid_value(where, shown, "minAvailable and maxUnavailable cannot be both set")
