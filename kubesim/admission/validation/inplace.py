"""What may be done to a pod in place: ephemeral containers that are added, resources that are resized."""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.admission.prepare import qos_class
from kubesim.admission.validation.podchanges import difference
from kubesim.admission.validation.pods import MIRROR, pod_errors
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
    before, after = old["spec"], new["spec"]
    if never := _unresizable(old, new):
        return [forbidden_field("[]", never)]
    errors = pod_errors(new)
    if qos_class(before) != qos_class(after):
        why = "Pod QOS Class may not change as a result of resizing"
        errors.append(invalid_value("spec", old.get("status", {}).get("qosClass", ""), why))
    moved = [*_order_errors(before, after, "containers"), *_order_errors(before, after, "initContainers")]
    if moved:
        return errors + moved
    for field in ("initContainers", "containers"):
        for path, earlier, later in _pairs(before, after, field):
            if field == "containers" or _is_sidecar(earlier):
                errors += _removal_errors(earlier, later, f"{path}.resources")
    for field in ("containers", "initContainers"):
        for _, earlier, later in _pairs(before, after, field):
            if because := _change(earlier, later, field):
                errors.append(forbidden_field("spec", because))
    if not errors and _besides(before) != _besides(after):
        errors.append(forbidden_field("spec", ONLY))
    return errors


def _unresizable(old: Obj, new: Obj) -> str:
    """Return why a pod cannot be resized at all, or nothing."""
    wholes = [pod["spec"].get("resources") or {} for pod in (old, new)]
    if any(whole.get("requests") or whole.get("limits") for whole in wholes):
        return "pods with pod-level resources cannot be resized"
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return "static pods cannot be resized"
    return "windows pods cannot be resized" if (old["spec"].get("os") or {}).get("name") == "windows" else ""


def _order_errors(old: Obj, new: Obj, field: str) -> Iterator[FieldError]:
    """Yield where containers have come, gone or changed their names."""
    before, after = old.get(field) or [], new.get(field) or []
    if len(before) != len(after):
        yield forbidden_field(f"spec.{field}", f"{field} may not be added or removed on resize")
        return
    for at, (earlier, later) in enumerate(zip(before, after, strict=True)):
        if earlier["name"] != later["name"]:
            yield forbidden_field(f"spec.{field}[{at}].name", f"{field} may not be renamed or reordered on resize")


def _pairs(old: Obj, new: Obj, field: str) -> Iterator[tuple[str, Obj, Obj]]:
    for at, (earlier, later) in enumerate(zip(old.get(field) or (), new.get(field) or (), strict=True)):
        yield f"spec.{field}[{at}]", earlier, later


def _is_sidecar(container: Obj) -> bool:
    return container.get("restartPolicy") == "Always"


def _removal_errors(old: Obj, new: Obj, path: str) -> Iterator[FieldError]:
    before, after = old.get("resources") or {}, new.get("resources") or {}
    for part in ("requests", "limits"):
        if not (before.get(part) or {}).keys() <= (after.get(part) or {}).keys():
            yield forbidden_field(f"{path}.{part}", f"resource {part} cannot be removed")


def _change(old: Obj, new: Obj, field: str) -> str:
    """Return why a container may not change as it does, or nothing."""
    if field == "initContainers" and not _is_sidecar(new):
        return "" if old == new else "resources for non-sidecar init containers are immutable"
    if _with_amounts_of(new, old) == _with_amounts_of(old, old):
        return ""
    return ONLY if field == "containers" else "only cpu and memory resources for sidecar containers are mutable"


def _with_amounts_of(container: Obj, old: Obj) -> Obj:
    """Return a container with the cpu and memory of another, and nothing where that has nothing of a sort."""
    amounts, had = container.get("resources") or {}, old.get("resources") or {}
    kept = {}
    for part in ("limits", "requests"):
        if had.get(part):
            own = (amounts.get(part) or {}).items()
            kept[part] = {name: parse(str(value)) for name, value in own if name not in MUTABLE}
    return {**container, "resources": kept}


def _besides(spec: Obj) -> Obj:
    return {name: value for name, value in spec.items() if name not in ("containers", "initContainers")}
