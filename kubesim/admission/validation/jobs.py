"""The rules of jobs and cron jobs that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kubesim.admission.validation.checks import repeated
from kubesim.admission.validation.containers import names_in
from kubesim.admission.validation.metadata import dns_errors
from kubesim.admission.validation.rules import Place, check, check_of_missing
from kubesim.admission.validation.selectors import label_selector
from kubesim.admission.validation.workloads import mismatches, shown_selector
from kubesim.api import cron
from kubesim.api.selectors import from_struct
from kubesim.api.status import FieldError, duplicate, invalid_value, required
from kubesim.errors import Obj
from kubesim.schema.internal import internal
from kubesim.schema.registry import Kind

MAX_DIGITS = 18
"""Of what surely is a number of 64 bits."""
JOB_LABELS = {
    "controller-uid": "uid",
    "job-name": "name",
    "batch.kubernetes.io/controller-uid": "uid",
    "batch.kubernetes.io/job-name": "name",
}
"""The labels of a job's pods, and the field of its metadata that each repeats."""
PLACING = ("affinity", "nodeSelector", "tolerations", "schedulingGates")
ZONE_PART = re.compile(r"[A-Za-z._0-9+][-A-Za-z._0-9+]{0,13}")


@check
def job_selector(spec: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A job's selector, which may be empty."""
    found = spec.get("selector")
    if found is None:
        yield required(f"{where}.selector")
    wrong = list(label_selector(found or {}, f"{where}.selector", place))
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
    if list(label_selector(spec["selector"], "", place)):
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


def update_errors(old: Obj, new: Obj) -> list[FieldError]:
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
    """What makes a job succeed, said of one without indexes."""
    yield invalid_value(where, internal("SuccessPolicy", place.value["successPolicy"]), text)


@check
def success(rule: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """How many and which indexes of a job are enough."""
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
