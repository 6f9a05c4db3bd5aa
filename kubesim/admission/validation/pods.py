"""The rules of pods that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator

from kubesim.admission.validation.rules import Place, check, errors_of
from kubesim.api.quantity import parse
from kubesim.api.status import FieldError, duplicate, forbidden_field, invalid_value, not_found_field, required
from kubesim.errors import Obj
from kubesim.schema.internal import internal

STANDARD = ("cpu", "memory", "ephemeral-storage")
LONGEST_SYSCTL = 253
SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
FREE_FIELDS = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
UPDATE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_errors(pod: Obj) -> list[FieldError]:
    """Return what is wrong with a pod."""
    return errors_of("kinds", "pods", Place(pod))


@check
def sysctls(values: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """Kernel parameters, each once."""
    for at, sysctl in enumerate(values):
        name = sysctl.get("name", "")
        if not name:
            yield required(f"{where}[{at}].name")
        elif len(name) > LONGEST_SYSCTL or not SYSCTL.fullmatch(name):
            why = f"must have at most {LONGEST_SYSCTL} characters and match regex ^{SYSCTL.pattern}$"
            yield invalid_value(f"{where}[{at}].name", name, why)
        elif name in [earlier.get("name") for earlier in values[:at]]:
            yield duplicate(f"{where}[{at}].name", name)


@check
def mounts(values: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """Mounts of the pod's volumes, each at a place of its own."""
    pod = place.above.value if place.above else {}
    volumes = {volume.get("name", "") for volume in pod.get("volumes") or ()}
    seen: set[str] = set()
    for at, mount in enumerate(values):
        if not (name := mount.get("name")):
            yield required(f"{where}[{at}].name")
        elif name not in volumes:
            yield not_found_field(f"{where}[{at}].name", name)
        if not (path := mount.get("mountPath")):
            yield required(f"{where}[{at}].mountPath")
        elif path in seen:
            yield invalid_value(f"{where}[{at}].mountPath", path, "must be unique")
        seen.add(mount.get("mountPath", ""))


@check
def resources(value: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """Requests and limits; extended resources cannot be overcommitted."""
    limits, requests = value.get("limits", {}), value.get("requests", {})
    for part, quantities in (("limits", limits), ("requests", requests)):
        for name, quantity in sorted(quantities.items()):
            yield from _quantity_errors(name, quantity, f"{where}.{part}")
    for name, quantity in sorted(requests.items()):
        yield from _pair_errors(name, quantity, limits.get(name), where)


def _quantity_errors(name: str, value: str, path: str) -> Iterator[FieldError]:
    where = f"{path}[{name}]"
    yield from resource_name_errors(name, where)
    if parse(value) < 0:
        yield invalid_value(where, value, "must be greater than or equal to 0")
    if is_extended(name) and parse(value).denominator != 1:
        yield invalid_value(where, value, "must be an integer")


def resource_name_errors(name: str, where: str) -> Iterator[FieldError]:
    """Yield what is wrong with the name of a resource that a container is to have."""
    if "/" not in name and name not in STANDARD and not name.startswith("hugepages-"):
        yield invalid_value(where, name, "must be a standard resource type or fully qualified")
        yield invalid_value(where, name, "must be a standard resource for containers")


def _pair_errors(name: str, request: str, limit: str | None, path: str) -> Iterator[FieldError]:
    if limit is None:
        if is_extended(name):
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
    elif is_extended(name) and parse(request) != parse(limit):
        yield invalid_value(f"{path}.requests", request, f"must be equal to {name} limit of {limit}")
    elif parse(request) > parse(limit):
        yield invalid_value(f"{path}.requests", request, f"must be less than or equal to {name} limit of {limit}")


def is_extended(name: str) -> bool:
    """Tell whether a resource is an extended one, such as nvidia.com/gpu."""
    domain, slash, _ = name.partition("/")
    return (
        bool(slash)
        and not domain.startswith("requests.")
        and domain != "kubernetes.io"
        and not domain.endswith(".kubernetes.io")
    )


def update_errors(old: Obj, new: Obj) -> list[FieldError]:
    """Return an error where a pod changed in more than its images, its deadline or added tolerations."""
    before, after = old["spec"], new["spec"]
    for field in ("containers", "initContainers"):
        if len(before.get(field, ())) != len(after.get(field, ())):
            return [forbidden_field(f"spec.{field}", "pod updates may not add or remove containers")]
    deadline, earlier = after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if deadline is not None and earlier is not None and deadline > earlier:
        why = "must be less than or equal to previous value"
        return [invalid_value("spec.activeDeadlineSeconds", deadline, why)]
    errors = []
    if deadline is None and earlier is not None:
        why = "must not update from a positive integer to nil value"
        errors.append(invalid_value("spec.activeDeadlineSeconds", None, why))
    kept = [_lasting(entry) for entry in after.get("tolerations", ())]
    if any(_lasting(entry) not in kept for entry in before.get("tolerations", ())):
        why = "existing toleration can not be modified except its tolerationSeconds"
        errors.append(forbidden_field("spec.tolerations", why))
    munged = _munged(before, after)
    if munged != before:
        errors.append(forbidden_field("spec", f"{UPDATE_TEXT}\n{difference('PodSpec', before, munged)}"))
    return errors


def _lasting(toleration: Obj) -> Obj:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _munged(before: Obj, after: Obj) -> Obj:
    """Return the new PodSpec with the old value of everything that an update may change."""
    munged = {name: value for name, value in after.items() if name not in FREE_FIELDS}
    munged |= {name: before[name] for name in FREE_FIELDS if name in before}
    if before.get("terminationGracePeriodSeconds", 0) < 0 and after.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = before["terminationGracePeriodSeconds"]
    for field in ("containers", "initContainers"):
        if field in after:
            pairs = zip(after[field], before[field], strict=True)
            munged[field] = [{**entry, "image": earlier.get("image", "")} for entry, earlier in pairs]
    return munged


def difference(name: str, before: Obj, after: Obj) -> str:
    """Return what changed as the API server shows it: a unified diff of both as it has them in memory."""
    old, new = (json.dumps(internal(name, each), indent=1, ensure_ascii=False) for each in (before, after))
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="")
    return "".join(f"{line}\n" for line in list(lines)[2:])
