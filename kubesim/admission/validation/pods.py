"""The rules of pods and their containers that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kubesim.admission.validation.checks import first_places, form_errors, is_repeated
from kubesim.admission.validation.rules import Place, check, errors_of
from kubesim.admission.validation.volumes import pod_of
from kubesim.api.selectors import key_errors, value_errors
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
from kubesim.schema.paths import walk

MIRROR = "kubernetes.io/config.mirror"
MAX_SYSCTL_NAME = 253
SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
NAMESPACED = {
    "hostNetwork": ("net.",),
    "hostIPC": ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."),
}
"""The kernel parameters of a namespace, by the field that says that it is the node's."""


def pod_errors(pod: Obj) -> list[FieldError]:
    """Return what is wrong with a pod."""
    return errors_of("kinds", "pods", Place(pod))


@check
def mirror_of_node(pod: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A pod that mirrors one of a kubelet's own names its node."""
    notes = (pod.get("metadata") or {}).get("annotations") or {}
    if MIRROR in notes and not (pod.get("spec") or {}).get("nodeName"):
        why = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid_value(f"{where}[{MIRROR}]", notes[MIRROR], why)


@check
def sysctls(values: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """Kernel parameters, each once, and none of a namespace that is the node's."""
    spec = place.above.value if place.above else {}
    first = first_places(sysctl.get("name") for sysctl in values)
    for at, sysctl in enumerate(values):
        name, path = sysctl.get("name", ""), f"{where}[{at}].name"
        if not name:
            yield required(path)
        elif len(name) > MAX_SYSCTL_NAME or not SYSCTL.fullmatch(name):
            why = f"must have at most {MAX_SYSCTL_NAME} characters and match regex ^{SYSCTL.pattern}$"
            yield invalid_value(path, name, why)
        elif first[name] < at:
            yield duplicate(path, name)
        for field, beginnings in NAMESPACED.items():
            if spec.get(field) and name.replace("/", ".").startswith(beginnings):
                yield invalid_value(path, name, f"may not be specified when '{field}' is true")


@check
def bare_images(spec: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The names of images in a pod have no blanks around them; in a template they may."""
    for field in ("containers", "initContainers"):
        for at, container in enumerate(spec.get(field) or ()):
            image = container.get("image", "")
            if image != image.strip():
                why = "must not have leading or trailing whitespace"
                yield invalid_value(f"{where}.{field}[{at}].image", image, why)


@check
def host_network(spec: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """In the network of the node a container has no port of the node but its own."""
    of_pod = pod_of(place) is not None
    for path, value in walk(spec, "containers[].ports[]", where):
        number = value.get("hostPort", 0)
        if (of_pod or number) and number != value.get("containerPort", 0):
            why = "must match `containerPort` when `hostNetwork` is true"
            yield invalid_value(f"{path}.hostPort", number, why)


REFERENCES = (
    *("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"),
    *("spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "spec.schedulerName", "status.phase"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
"""Fields of a pod that may be told to its containers at all."""
OLD_REFERENCES = {"spec.host": "spec.nodeName"}
SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")
NO_SOURCE = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
SEVERAL_SOURCES = "may not have more than one field specified at a time"


@check
def own_port_name(name: str, where: str, place: Place) -> Iterator[FieldError]:
    """The name of a port, which no port before it has."""
    wrong = form_errors("port name", name)
    yield from (invalid_value(where, name, why) for why in wrong)
    if name and not wrong and is_repeated(place, "name", name):
        yield duplicate(where, name)


@check
def host_ports(containers: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """The ports of the node that containers take, each once."""
    taken: set[str] = set()
    for at, container in enumerate(containers):
        if "ports" in container:
            yield from _taken_ports(container["ports"], f"{where}[{at}].ports", taken)


def _taken_ports(ports: list[Obj], where: str, taken: set[str]) -> Iterator[FieldError]:
    for at, port in enumerate(ports):
        if number := port.get("hostPort"):
            shown = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{number}"
            if shown in taken:
                yield duplicate(f"{where}[{at}].hostPort", shown)
            taken.add(shown)


@check
def unlike_containers(name: str, where: str, place: Place, fields: Sequence[str]) -> Iterator[FieldError]:
    """The name of a container, which no container of other sorts has, and none before it."""
    if is_repeated(place, "name", name) or name in names_in(place.above, fields):
        yield duplicate(where, name)


def names_in(place: Place | None, fields: Sequence[str]) -> set[str]:
    """Return the names of the entries of some lists of an object."""
    if place is None:
        return set()
    entries = (entry for field in fields for entry in place.value.get(field) or ())
    found: set[str] = place.known(f"names in {fields}", lambda: {entry.get("name", "") for entry in entries})
    return found


@check
def target(name: str, where: str, place: Place) -> Iterator[FieldError]:
    """The container whose processes an ephemeral one is to see."""
    if name and name not in names_in(place.above, ("containers", "initContainers")):
        yield not_found_field(where, name)


@check
def without(
    value: Obj, where: str, place: Place, fields: Sequence[str], text: str, *, filled: bool = False
) -> Iterator[FieldError]:
    """An object that has none of some fields (``filled``: or nothing in them)."""
    for path in fields:
        for at, inner in walk(value, path, where):
            if inner is not None and (inner or not filled):
                yield forbidden_field(at, text)


@check
def field_reference(value: Obj, where: str, place: Place, choices: Sequence[str]) -> Iterator[FieldError]:
    """The part of a pod that is told to its containers: a field, or one label or annotation."""
    version, field = value.get("apiVersion", ""), value.get("fieldPath", "")
    if not version or not field:
        yield required(f"{where}.{'fieldPath' if version else 'apiVersion'}")
        return
    path, key = _subscript(field)
    why = _unknown(version, field, path, subscripted=key is not None)
    if why:
        yield invalid_value(f"{where}.fieldPath", field, f"error converting fieldPath: {why}")
    elif key is not None:
        name = key.lower() if path == "metadata.annotations" else key
        yield from (invalid_value(where, name, wrong) for wrong in key_errors(name))
    elif OLD_REFERENCES.get(field, field) not in choices:
        yield unsupported(f"{where}.fieldPath", OLD_REFERENCES.get(field, field), tuple(choices))


def _subscript(field: str) -> tuple[str, str | None]:
    """Split ``metadata.labels['a']``."""
    path, found, key = field.removesuffix("']").partition("['")
    return (path, key) if field.endswith("']") and found and path else (field, None)


def _unknown(version: str, field: str, path: str, *, subscripted: bool) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if subscripted:
        return "" if path in REFERENCES[:2] else f"field label does not support subscript: {field}"
    return "" if field in REFERENCES or field in OLD_REFERENCES else f"field label not supported: {field}"


@check
def variable_source(value: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The source of a variable's value: one place, and no value beside it."""
    count = sum(name in value for name in SOURCES)
    if not count:
        yield invalid_value(where, "", NO_SOURCE)
    elif place.above is not None and place.above.value.get("value"):
        yield invalid_value(where, "", "may not be specified when `value` is not empty")
    elif count > 1:
        yield invalid_value(where, "", SEVERAL_SOURCES)


@check
def variables_source(value: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The source of several variables; upstream speaks of the list."""
    count = ("configMapRef" in value) + ("secretRef" in value)
    if count != 1:
        why = SEVERAL_SOURCES if count else "must specify one of: `configMapRef` or `secretRef`"
        yield invalid_value(where.rpartition("[")[0], "", why)


@check
def tolerated(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """The value of a taint that a pod tolerates; all that is wrong with it is one error."""
    if wrong := value_errors(value):
        yield invalid_value(where, value, ";".join(wrong))
