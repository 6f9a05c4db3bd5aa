"""The rules of volumes, claims and drivers that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from kubesim.admission.validation.podchanges import difference
from kubesim.admission.validation.rules import Place, check, check_of_missing
from kubesim.api.quantity import canonical, parse
from kubesim.api.selectors import key_errors
from kubesim.api.status import FieldError, forbidden_field, invalid_value, required, unsupported
from kubesim.errors import Obj
from kubesim.schema.internal import internal

MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
FIXED_CLAIM = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)
FIXED = "field is immutable"
CLASS_NOTE = "volume.beta.kubernetes.io/storage-class"
POSITIVE = "must be greater than zero"
MOST_PARAMETERS, PARAMETERS_SIZE = 512, 256 * 1024


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


@check
def one_data_source(spec: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The two ways to say what a volume is made from say the same."""
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old is None or new is None:
        return
    if new.get("namespace"):
        yield _source_error(where, "may not be specified when dataSourceRef.namespace is specified")
    elif any(old.get(name) != new.get(name) for name in ("apiGroup", "kind", "name")):
        yield _source_error(where, "must match dataSourceRef")


def _source_error(where: str, why: str) -> FieldError:
    """Return an error that shows nothing, as upstream does: it shows a path in place of the value."""
    return invalid_value(where, {}, why)


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
    notes = [claim["metadata"].get("annotations", {}).get(CLASS_NOTE, "") for claim in (old, new)]
    errors = []
    if notes[0] != notes[1]:
        errors.append(invalid_value(f"metadata.annotations.{CLASS_NOTE}", notes[1], FIXED))
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


@check
def unrecycled(spec: Obj, where: str, place: Place) -> Iterable[FieldError]:
    """Nobody wipes a whole machine."""
    path = (spec.get("hostPath") or {}).get("path") or "."
    if (
        posixpath.normpath(path).lstrip("/")
        or spec.get("persistentVolumeReclaimPolicy") != "Recycle"
        or path[0] != "/"
    ):
        return ()
    why = "may not be 'recycle' for a hostPath mount of '/'"
    return (forbidden_field(f"{where}.persistentVolumeReclaimPolicy", why),)


@check
def provisioner(name: str, where: str, place: Place) -> Iterable[FieldError]:
    """The name of what makes volumes, in letters of any case."""
    lower = name.lower()
    return [invalid_value(where, lower, why) for why in key_errors(lower)] if name else ()


@check
def parameters(values: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """What a class tells those who make its volumes: not too much, all of it named."""
    if len(values) > MOST_PARAMETERS:
        yield FieldError(where, "FieldValueTooLong", f"Too long: may not be more than {MOST_PARAMETERS} bytes")
        return
    if "" in values:
        yield invalid_value(where, "", "field can not be empty.")
    if sum(len(key.encode()) + len(value.encode()) for key, value in values.items()) > PARAMETERS_SIZE:
        yield FieldError(where, "FieldValueTooLong", f"Too long: may not be more than {PARAMETERS_SIZE} bytes")


def volume_update_errors(old: Obj, new: Obj) -> list[FieldError]:
    """A volume stays what it is and where it is."""
    errors = []
    before, after = (_source(obj["spec"]) for obj in (old, new))
    csi, had = after.get("csi") or {}, before.get("csi") or {}
    if "controllerExpandSecretRef" in csi and had and "controllerExpandSecretRef" not in had:
        after["csi"] = {name: value for name, value in csi.items() if name != "controllerExpandSecretRef"}
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
    if "volumeAttributesClassName" in old["spec"] and "volumeAttributesClassName" not in new["spec"]:
        why = "update from non-nil value to nil is forbidden"
        errors.append(forbidden_field("spec.volumeAttributesClassName", why))
    return errors


BESIDES = (
    *("capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName", "mountOptions"),
    *("volumeMode", "nodeAffinity", "volumeAttributesClassName"),
)
"""What of a volume's spec is not its source."""


def _source(spec: Obj) -> Obj:
    return {name: value for name, value in spec.items() if name not in BESIDES}
