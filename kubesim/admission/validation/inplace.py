"""What may be done to a pod in place: ephemeral containers that are added, resources that are resized."""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.admission.prepare import qos_class
from kubesim.admission.validation.podchanges import difference
from kubesim.admission.validation.pods import pod_errors
from kubesim.api.quantity import parse
from kubesim.api.status import FieldError, forbidden_field, invalid_value
from kubesim.errors import Obj

MUTABLE = ("cpu", "memory")
ONLY = "only cpu and memory resources are mutable"


def ephemeral_errors(old: Obj, new: Obj) -> list[FieldError]:
    """Return an error for each ephemeral container that is gone or changed: they can only be added."""
    after = {entry["name"]: entry for entry in new["spec"].get("ephemeralContainers") or ()}
    errors = pod_errors(new)
    for entry in old["spec"].get("ephemeralContainers") or ():
        name = entry["name"]
        if name not in after:
            text = f'existing ephemeral containers "{name}" may not be removed\n'
            errors.append(forbidden_field("spec.ephemeralContainers", text))
        elif after[name] != entry:
            change = difference("EphemeralContainer", entry, after[name])
            text = f'existing ephemeral containers "{name}" may not be changed\n{change}'
            errors.append(forbidden_field("spec.ephemeralContainers", text))
    return errors


def resize_errors(old: Obj, new: Obj) -> list[FieldError]:
    """Return what is wrong with a resize: the class of service stays, and only cpu and memory change."""
    errors = pod_errors(new)
    if qos_class(old["spec"]) != qos_class(new["spec"]):
        why = "Pod QOS Class may not change as a result of resizing"
        errors.append(invalid_value("spec", old.get("status", {}).get("qosClass", ""), why))
    for field in ("initContainers", "containers"):
        before, after = old["spec"].get(field) or [], new["spec"].get(field) or []
        if [entry["name"] for entry in before] != [entry["name"] for entry in after]:
            return [*errors, forbidden_field(f"spec.{field}", "containers may not be renamed or reordered on resize")]
        for at, (earlier, later) in enumerate(zip(before, after, strict=True)):
            errors += _container_errors(earlier, later, f"spec.{field}[{at}].resources")
            if field == "initContainers" and earlier.get("restartPolicy") != "Always" and earlier != later:
                errors.append(forbidden_field("spec", "resources for non-sidecar init containers are immutable"))
    return errors


def _container_errors(old: Obj, new: Obj, path: str) -> Iterator[FieldError]:
    before, after = old.get("resources") or {}, new.get("resources") or {}
    for part, word in (("requests", "requests"), ("limits", "limits")):
        was, now = before.get(part) or {}, after.get(part) or {}
        if any(name not in now for name in was):
            yield forbidden_field(f"{path}.{part}", f"resource {word} cannot be removed")
        others = {name for name in {*was, *now} if name not in MUTABLE}
        if any(parse(str(was.get(name, "0"))) != parse(str(now.get(name, "0"))) for name in others):
            yield forbidden_field("spec", ONLY)
