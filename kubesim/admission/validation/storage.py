"""The rules of volumes, claims and drivers that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.admission.validation.podchanges import difference
from kubesim.admission.validation.rules import Place, check, check_of_missing
from kubesim.api.quantity import canonical, parse
from kubesim.api.status import FieldError, forbidden_field, invalid_value, required, unsupported
from kubesim.errors import Obj
from kubesim.schema.internal import internal

MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
FIXED_CLAIM = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
FIXED = "field is immutable"
POSITIVE = "must be greater than zero"


@check
def access_modes(modes: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """Ways to use a volume; that of one pod alone excludes the others."""
    yield from (unsupported(where, mode, MODES) for mode in modes if mode not in MODES)
    if "ReadWriteOncePod" in modes and any(mode in MODES[:3] for mode in modes):
        yield forbidden_field(where, "may not use ReadWriteOncePod with other access modes")


@check
def claim(spec: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A claim asks for some storage."""
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    path = f"{where}.resources[storage]"
    if asked is None:
        yield required(path)
    elif parse(asked) <= 0:
        yield invalid_value(path, canonical(asked), POSITIVE)


def claim_update_errors(old: Obj, new: Obj) -> list[FieldError]:
    """A claim stays as it was made, but for the volume that it gets and, once it is bound, its size."""
    bound = new.get("status", {}).get("phase") == "Bound"
    before, after = dict(old["spec"]), dict(new["spec"])
    if not before.get("volumeName"):
        before["volumeName"] = after.get("volumeName")
    if "storageClassName" not in before and "storageClassName" in after:
        before["storageClassName"] = after["storageClassName"]
    had, wanted = ((spec.get("resources") or {}).get("requests", {}).get("storage", "0") for spec in (before, after))
    if bound:
        resources = after.get("resources") or {}
        after["resources"] = {**resources, "requests": {**resources.get("requests", {}), "storage": had}}
        after["volumeAttributesClassName"] = before.get("volumeAttributesClassName")
    errors = []
    if _given(before) != _given(after):
        why = f"{FIXED_CLAIM}\n{difference('PersistentVolumeClaimSpec', _given(before), _given(after))}"
        errors.append(forbidden_field("spec", why))
    held = (old.get("status", {}).get("capacity") or {}).get("storage", "0")
    if parse(wanted) < parse(had) and parse(wanted) <= parse(held):
        errors.append(
            forbidden_field("spec.resources.requests.storage", "field can not be less than status.capacity")
        )
    mode = new["spec"].get("volumeMode")
    if mode != old["spec"].get("volumeMode"):
        errors.append(invalid_value("volumeMode", mode, FIXED))
    return errors


def _given(spec: Obj) -> Obj:
    return {name: value for name, value in spec.items() if value is not None}


@check_of_missing
def capacity(value: Obj | None, where: str, place: Place) -> Iterator[FieldError]:
    """What a volume holds is storage, and not nothing."""
    if set(value or ()) != {"storage"}:
        yield unsupported(where, value, ("storage",))
    for name, quantity in sorted((value or {}).items()):
        amount = parse(quantity)
        if amount < 0:
            yield invalid_value(f"{where}[{name}]", int(amount), "must be a valid resource quantity")
        if amount <= 0:
            yield invalid_value(f"{where}[{name}]", canonical(quantity), POSITIVE)


def volume_update_errors(old: Obj, new: Obj) -> list[FieldError]:
    """A volume stays what it is and where it is."""
    errors = []
    before, after = (_source(obj["spec"]) for obj in (old, new))
    if before != after:
        shown = difference("PersistentVolumeSource", before, after)
        why = f"spec.persistentvolumesource is immutable after creation\n{shown}"
        errors.append(forbidden_field("spec.persistentvolumesource", why))
    mode = new["spec"].get("volumeMode")
    if mode != old["spec"].get("volumeMode"):
        errors.append(invalid_value("volumeMode", mode, FIXED))
    where = new["spec"].get("nodeAffinity")
    if old["spec"].get("nodeAffinity") is not None and where != old["spec"]["nodeAffinity"]:
        why = f"{FIXED}, except for updating from beta label to GA"
        errors.append(invalid_value("nodeAffinity", internal("VolumeNodeAffinity", where), why))
    return errors


BESIDES = (
    *("capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName", "mountOptions"),
    *("volumeMode", "nodeAffinity", "volumeAttributesClassName"),
)
"""What of a volume's spec is not its source."""


def _source(spec: Obj) -> Obj:
    return {name: value for name, value in spec.items() if name not in BESIDES}
