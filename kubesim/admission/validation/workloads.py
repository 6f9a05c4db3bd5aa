"""The rules of workloads, jobs among them, that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubesim.admission.prepare import JOB_LABELS
from kubesim.admission.validation.checks import repeated
from kubesim.admission.validation.metadata import annotation_errors, dns_errors, label_errors
from kubesim.admission.validation.pods import names_in
from kubesim.admission.validation.rules import Place, check, check_of_missing, errors_of
from kubesim.api import cron
from kubesim.api.selectors import from_struct
from kubesim.api.status import FieldError, duplicate, forbidden_field, invalid_value, required, unsupported
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


MAX_DIGITS = 18
"""Of what surely is a number of 64 bits."""
PLACING = ("affinity", "nodeSelector", "tolerations", "schedulingGates")
ZONE_PART = re.compile(r"[A-Za-z._0-9+][-A-Za-z._0-9+]{0,13}")


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
def pod_names(job: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The pods of an indexed job have its name and their index for host names."""
    spec, name = job.get("spec") or {}, job["metadata"].get("name", "")
    if spec.get("completionMode") == "Indexed" and (spec.get("completions") or 0) > 0:
        last = f"{name}-{spec['completions'] - 1}"
        if dns_errors(last):
            yield invalid_value("metadata.name", name, f"will not able to create pod with invalid DNS label: {last}")


@check
def no_more_than(value: int, where: str, place: Place, path: str, text: str) -> Iterator[FieldError]:
    """A number that is not above another field's, where that is there."""
    other = place.value.get(path)
    if other is not None and value > other:
        yield invalid_value(where, value, text)


@check
def with_above(value: str, where: str, place: Place, field: str, text: str) -> Iterator[FieldError]:
    """A value that needs a field of the object that holds this one."""
    if place.above is None or place.above.value.get(field) is None:
        yield invalid_value(where, value, text)


@check
def container_of_job(name: str, where: str, place: Place) -> Iterator[FieldError]:
    """The name of a container of the job's pods."""
    job = place.above.above if place.above else None
    pod = ((job.value.get("template") if job else None) or {}).get("spec") or {}
    fields = ("containers", "initContainers")
    if job is None or name not in job.known("names in template", lambda: names_in(Place(pod), fields)):
        why = "must be one of the container or initContainer names in the pod template"
        yield invalid_value(where, name, why)


@check_of_missing
def exit_codes(values: list[int] | None, where: str, place: Place) -> Iterator[FieldError]:
    """Exit codes, one at least, in their order, each once."""
    if not values:
        yield invalid_value(where, values, "at least one value is required")
        return
    again = repeated(values)
    for at, code in enumerate(values):
        if code == 0 and place.value.get("operator") == "In":
            yield invalid_value(f"{where}[{at}]", code, "must not be 0 for the In operator")
        if at in again:
            yield duplicate(f"{where}[{at}]", code)
    if values != sorted(values):
        yield invalid_value(where, values, "must be ordered")


@check
def indexed_success(policy: Obj, where: str, place: Place, text: str) -> Iterator[FieldError]:
    """A policy of success in a job without indexes."""
    yield invalid_value(where, internal("SuccessPolicy", place.value["successPolicy"]), text)


@check
def success(rule: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A rule that says how many and which indexes of a job are enough."""
    completions = (place.above.value.get("completions") if place.above else 0) or 0
    count, text = rule.get("succeededCount"), rule.get("succeededIndexes")
    total, why = counted(text or "", completions)
    if why:
        yield invalid_value(f"{where}.succeededIndexes", text, f"error parsing succeededIndexes: {why}")
    if count is None:
        return
    most = [(completions, "the number of specified completions")]
    most += [] if text is None else [(total, "the number of indexes in the specified succeededIndexes field")]
    if count < 0:
        yield invalid_value(f"{where}.succeededCount", count, "must be greater than or equal to 0")
    for limit, what in most:
        if count > limit:
            why = f"must be less than or equal to {limit} ({what})"
            yield invalid_value(f"{where}.succeededCount", count, why)


def counted(text: str, completions: int) -> tuple[int, str]:
    """Return (how many, what is wrong) of indexes like ``0,2-4``."""
    last, total = -1, 0
    for part in text.split(",") if text else ():
        low, high, why = interval(part, completions)
        if not why and last >= low:
            why = f"non-increasing order, previous: {last}, current: {low}"
        if why:
            return 0, why
        last, total = high, total + high - low + 1
    return total, ""


@check
def schedule(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """The times of a cron job."""
    try:
        cron.parse(value)
    except cron.ScheduleError as error:
        yield invalid_value(where, value, str(error))
    if "TZ" in value:
        yield invalid_value(where, value, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")


@check
def time_zone(zone: str, where: str, place: Place) -> Iterator[FieldError]:
    """The place whose clock a cron job goes by."""
    if zone == "":
        yield invalid_value(where, zone, "timeZone must be nil or non-empty string")
    elif any(part in (".", "..") or not ZONE_PART.fullmatch(part) for part in zone.split("/")):
        yield invalid_value(where, zone, f"unknown time zone {zone}")
    else:
        yield from _unknown_zone(zone, where)


def _unknown_zone(zone: str, where: str) -> Iterator[FieldError]:
    if zone.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield invalid_value(where, zone, why)
    try:
        ZoneInfo("UTC" if zone == "Local" else zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield invalid_value(where, zone, f"unknown time zone {zone}")


def interval(text: str, completions: int) -> tuple[int, int, str]:
    """Return (first, last, what is wrong) of a part of a list of indexes like ``0,2-4``."""
    limits = text.split("-")
    if len(limits) > 2:
        rule = "violates the requirement that an index interval can have at most two parts separated by '-'"
        return 0, 0, f'the fragment "{text}" {rule}'
    numbers = [limit.removeprefix("+") for limit in limits]
    for limit, digits in zip(limits, numbers, strict=True):
        if not digits.isascii() or not digits.isdigit() or len(digits.lstrip("0")) > MAX_DIGITS:
            return 0, 0, f'cannot convert string to integer for index: "{limit}"'
        if int(digits.lstrip("0") or "0") >= completions:
            return 0, 0, f'too large index: "{limit}"'
    low, high = (int(numbers[at].lstrip("0") or "0") for at in (0, -1))
    if len(limits) == 2 and low >= high:
        return 0, 0, f"non-increasing order, previous: {low}, current: {high}"
    return low, high, ""
