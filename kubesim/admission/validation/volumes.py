"""The rules of volumes that are more than a line of the tables in ``rules/``, and of where they are mounted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import orjson

from kubesim.admission.validation.checks import form_errors
from kubesim.admission.validation.rules import Place, check, errors_of
from kubesim.api.status import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_found_field,
    required,
    unsupported,
)
from kubesim.errors import Obj

_RIGHT: set[bytes] = set()
LONGEST_KNOWN, MOST_KNOWN = 1000, 1000
PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")


def pod_of(spec: Place) -> Obj | None:
    """Return the pod whose spec lies at a place; a template's is no pod's."""
    above = spec.above
    return above.value if above is not None and above.path == "" and above.value.get("kind", "Pod") == "Pod" else None


@check
def sole(
    value: Obj,
    where: str,
    place: Place,
    of: Mapping[str, str],
    several: str,
    none: str,
    within: Mapping[str, str] | None = None,
    called: Mapping[str, str] | None = None,
) -> Iterator[FieldError]:
    """An object that has one of some fields, each of a type with rules of its own.

    ``within`` and ``called`` say which fields upstream names otherwise: where it looks into them, and where it
    forbids them.
    """
    found = [name for name in of if name in value] if len(value) > 2 else [name for name in value if name in of]
    for name in found[:1]:
        inner = (within or {}).get(name, name)
        yield from errors_of("types", of[name], Place(value[name], f"{where}.{inner}", place))
    for name in found[1:]:
        yield forbidden_field(f"{where}.{(called or {}).get(name, name)}", several)
    if not found:
        yield required(where, none)


@check
def volumes(values: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """The volumes of a pod; what is right with them can be mounted."""
    right: dict[str, Obj] = {}
    for at, volume in enumerate(values):
        wrong, name = _volume_errors(Place(volume, f"{where}[{at}]", place)), volume.get("name", "")
        if name in right:
            wrong.append(duplicate(f"{where}[{at}].name", name))
        if not wrong:
            right[name] = volume
        yield from wrong
    place.facts = {**(place.facts or {}), "volumes": right}


def _volume_errors(place: Place) -> list[FieldError]:
    """Return what is wrong with a volume; of one that was right under another name only the name is asked."""
    source = {name: value for name, value in place.value.items() if name != "name"}
    known = orjson.dumps(source)
    if known in _RIGHT:
        return errors_of("types", "VolumeName", place)
    wrong = errors_of("types", "Volume", place)
    if not wrong and len(known) <= LONGEST_KNOWN and "ephemeral" not in source:
        if len(_RIGHT) >= MOST_KNOWN:
            _RIGHT.clear()
        _RIGHT.add(known)
    return wrong


def _form(word: str, value: str, where: str) -> list[FieldError]:
    return [invalid_value(where, value, why) for why in form_errors(word, value)]


@check
def mounts(values: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """Mounts of the pod's volumes, each at a place of its own."""
    known = ((place.above and place.above.facts) or {}).get("volumes") or {}
    seen: set[str] = set()
    for at, mount in enumerate(values):
        path, name, home = f"{where}[{at}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield required(f"{path}.name")
        if name not in known:
            yield not_found_field(f"{path}.name", name)
        if not home:
            yield required(f"{path}.mountPath")
        if home in seen:
            yield invalid_value(f"{path}.mountPath", home, "must be unique")
        seen.add(home)
        if len(mount) > 2:
            yield from _mount_options(mount, path, where, place)


def _mount_options(mount: Obj, path: str, where: str, place: Place) -> Iterator[FieldError]:
    """Yield what is wrong with how a volume is mounted; upstream speaks of the list's path."""
    below, expression = mount.get("subPath"), mount.get("subPathExpr")
    if below:
        yield from _form("way down", below, f"{where}.subPath")
    if expression:
        if below:
            why = "subPathExpr and subPath are mutually exclusive"
            yield invalid_value(f"{path}.subPathExpr", expression, why)
        yield from _form("way down", expression, f"{where}.subPathExpr")
    if (propagation := mount.get("mountPropagation")) is not None:
        if propagation not in PROPAGATIONS:
            yield unsupported(f"{where}.mountPropagation", propagation, PROPAGATIONS)
        if propagation == "Bidirectional" and not (place.value.get("securityContext") or {}).get("privileged"):
            why = "Bidirectional mount propagation is available only to privileged containers"
            yield forbidden_field(f"{where}.mountPropagation", why)
