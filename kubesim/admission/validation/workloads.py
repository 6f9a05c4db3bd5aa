"""The rules of workloads, jobs among them, that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubesim.admission.prepare import JOB_LABELS
from kubesim.admission.validation.metadata import annotation_errors, label_errors
from kubesim.admission.validation.rules import Place, check, errors_of
from kubesim.api import cron
from kubesim.api.selectors import from_struct
from kubesim.api.status import FieldError, forbidden_field, invalid_value, required, unsupported
from kubesim.errors import Obj
from kubesim.schema.internal import internal
from kubesim.schema.registry import Kind

UNCHANGED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
FREE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "minReadySeconds"),
    "persistentVolumeClaimRetentionPolicy",
)
PERCENT = re.compile("[0-9]+%")
MOST_DIGITS = 18
"""Of a number: those that come after make it no other one here."""
NUMBER = re.compile("[-+]?[0-9]+")
PERCENT_RULE = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)


@check
def chosen(
    spec: Obj, where: str, place: Place, template: str, what: str, text: str = "invalid label selector"
) -> Iterator[FieldError]:
    """A selector that may not be empty, and where it can be read the template, which it must match."""
    found = spec.get("selector")
    wrong = [] if found is None else selector_errors(found, f"{where}.selector")
    yield from wrong
    if found is None:
        yield required(f"{where}.selector")
    elif _is_empty(found):
        yield invalid_value(f"{where}.selector", found, f"empty selector is invalid for {what}")
    if wrong:
        yield invalid_value(f"{where}.selector", shown_selector(found), text)
        return
    yield from mismatches(spec, where)
    inside = Place(spec, where, place)
    yield from errors_of("types", template, Place(spec.get("template") or {}, f"{where}.template", inside))


def selector_errors(selector: Obj, where: str) -> list[FieldError]:
    """Return what is wrong with a label selector."""
    return errors_of("types", "LabelSelector", Place(selector, where))


def _is_empty(selector: Obj) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def shown_selector(selector: Obj | None) -> Obj:
    """Return a label selector as refusals show it."""
    found = selector or {}
    shown: Obj = {"matchLabels": dict(sorted((found.get("matchLabels") or {}).items()))}
    shown["matchExpressions"] = [
        {"key": entry.get("key", ""), "operator": entry.get("operator", "")}
        | ({"values": entry["values"]} if entry.get("values") else {})
        for entry in found.get("matchExpressions") or ()
    ]
    return {name: value for name, value in shown.items() if value}


def mismatches(spec: Obj, where: str) -> Iterator[FieldError]:
    """Yield an error where a selector that can be read does not choose what the template makes."""
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if not from_struct(spec.get("selector")).matches(labels):
        yield mismatch(labels, f"{where}.template")


def mismatch(labels: Obj | None, where: str) -> FieldError:
    """Return what is said of a template whose pods would not be chosen."""
    return invalid_value(f"{where}.metadata.labels", labels, "`selector` does not match template `labels`")


@check
def daemons(spec: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The selector of a daemon set, which is looked at less strictly."""
    found = spec.get("selector")
    wrong = selector_errors(found or {}, f"{where}.selector")
    yield from wrong or mismatches(spec, where)
    if found is not None and _is_empty(found):
        yield invalid_value(f"{where}.selector", found, "empty selector is invalid for daemonset")


@check
def map_selector(spec: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The labels that a replication controller looks for are those of its template."""
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if spec.get("template") is not None and not (spec.get("selector") or {}).items() <= (labels or {}).items():
        yield mismatch(labels, f"{where}.template")


@check
def pod_metadata(template: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The metadata of a pod template, whose path is shorter than where it lies."""
    metadata = template.get("metadata") or {}
    yield from label_errors(metadata.get("labels"), place.at("labels"))
    yield from annotation_errors(metadata.get("annotations"), place.at("annotations"))


@check
def template_with_claims(template: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The template of a stateful set with a volume for each claim, and without names, as its pods will have it."""
    pod, above = template.get("spec") or {}, place.above.value if place.above else {}
    names = [claim.get("metadata", {}).get("name", "") for claim in above.get("volumeClaimTemplates") or ()]
    spec = {name: value for name, value in pod.items() if name not in ("hostname", "subdomain")}
    if names:
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
        spec["volumes"] = volumes + [entry for entry in pod.get("volumes") or () if entry.get("name") not in names]
    yield from errors_of("types", "PodTemplate", Place({**template, "spec": spec}, where, place))


@check
def strategy(value: Obj, where: str, place: Place, choices: list[str], form: str) -> Iterator[FieldError]:
    """The way in which pods of a deployment or daemon set are replaced."""
    if value.get("type") not in choices:
        yield unsupported(where, internal(form, value), tuple(choices))


@check
def stateful_strategy(value: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The way in which pods of a stateful set are replaced."""
    form = internal("StatefulSetUpdateStrategy", value)
    if value.get("type") == "OnDelete" and value.get("rollingUpdate") is not None:
        why = "only allowed for updateStrategy 'RollingUpdate'"
        yield invalid_value(f"{where}.rollingUpdate", form["RollingUpdate"], why)
    elif value.get("type") not in ("OnDelete", "RollingUpdate"):
        yield invalid_value(where, form, "must be 'RollingUpdate' or 'OnDelete'")


@check
def share(value: Any, where: str, place: Place) -> Iterator[FieldError]:
    """A number that is not negative, or a percentage."""
    if isinstance(value, str):
        if not PERCENT.fullmatch(value):
            yield invalid_value(where, value, PERCENT_RULE)
    elif value < 0:
        yield invalid_value(where, value, "must be greater than or equal to 0")


@check
def no_more_than_all(value: Any, where: str, place: Place) -> Iterator[FieldError]:
    """A share of at most 100 % (where it is a percentage)."""
    if isinstance(value, str) and PERCENT.fullmatch(value) and amount(value) > 100:
        yield invalid_value(where, value, "must not be greater than 100%")


def amount(value: Any) -> int:
    """Return what a share comes to: its number, with or without a sign for percent; what is none is nothing."""
    if isinstance(value, str):
        text = value.removesuffix("%") if PERCENT.fullmatch(value) else value
        digits = text.lstrip("+-0")[:MOST_DIGITS] if NUMBER.fullmatch(text) else ""
        return int(digits or "0") * (-1 if text[:1] == "-" else 1)
    return value or 0


@check
def some_may_go(rolling: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A deployment goes forward only where a pod may be missing, or be too many."""
    if not amount(rolling.get("maxUnavailable")) and not amount(rolling.get("maxSurge")):
        shown = rolling.get("maxUnavailable", 0)
        yield invalid_value(f"{where}.maxUnavailable", shown, "may not be 0 when `maxSurge` is 0")


@check
def either_way(rolling: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The pods of a daemon set are replaced before or after, not both ways."""
    missing, surge = amount(rolling.get("maxUnavailable")), amount(rolling.get("maxSurge"))
    if missing and surge:
        yield invalid_value(
            f"{where}.maxSurge", rolling["maxSurge"], "may not be set when maxUnavailable is non-zero"
        )
    elif not missing and not surge:
        yield required(f"{where}.maxUnavailable", "cannot be 0 when maxSurge is 0")


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
def budget(spec: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A budget says what must stay, or what may go."""
    if "minAvailable" in spec and "maxUnavailable" in spec:
        shown = internal("PodDisruptionBudgetSpec", spec)
        if spec.get("selector"):
            shown["Selector"] = shown_selector(spec["selector"])
        yield invalid_value(where, shown, "minAvailable and maxUnavailable cannot be both set")


PLACING = ("affinity", "nodeSelector", "tolerations", "schedulingGates")


@check
def job_selector(spec: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A job's selector, which may be empty."""
    found = spec.get("selector")
    if found is None:
        yield required(f"{where}.selector")
    wrong = selector_errors(found or {}, f"{where}.selector")
    yield from wrong or mismatches(spec, where)


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
    if selector_errors(spec["selector"], ""):
        return
    expected = {name: metadata.get(value, "") for name, value in JOB_LABELS.items()}
    if not from_struct(spec["selector"]).matches(expected):
        yield invalid_value("spec.selector", shown_selector(spec["selector"]), "`selector` not auto-generated")


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


def job_update_errors(old: Obj, new: Obj) -> list[FieldError]:
    """An indexed job has as many completions as it has pods at a time, once they change."""
    spec, wanted = new["spec"], new["spec"].get("completions")
    if spec.get("completionMode") != "Indexed" or wanted in (None, old["spec"].get("completions")):
        return []
    why = "can only be modified in tandem with spec.parallelism"
    return [] if wanted == spec.get("parallelism") else [invalid_value("spec.completions", wanted, why)]


def _unplaced(template: Obj) -> Obj:
    """Return a pod template without what says where its pods may run."""
    spec = {name: value for name, value in template.get("spec", {}).items() if name not in PLACING}
    others = {name: value for name, value in template.get("spec", {}).get("affinity", {}).items() if value}
    others.pop("nodeAffinity", None)
    metadata = {k: v for k, v in template.get("metadata", {}).items() if k not in ("labels", "annotations")}
    return {"metadata": metadata, "spec": spec, "affinity": others}


@check
def time_zone(zone: str, where: str, place: Place) -> Iterator[FieldError]:
    """The place whose clock a cron job goes by."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield invalid_value(where, zone, f"unknown time zone {zone}")


@check
def schedule(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """The times of a cron job."""
    try:
        cron.parse(value)
    except cron.ScheduleError as error:
        yield invalid_value(where, value, str(error))
    if "TZ" in value:
        yield invalid_value(where, value, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
