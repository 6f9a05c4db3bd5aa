"""The rules of pods that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubesim.admission.validation.checks import first_places
from kubesim.admission.validation.rules import Place, check, errors_of
from kubesim.admission.validation.volumes import pod_of
from kubesim.api.status import FieldError, duplicate, invalid_value, required
from kubesim.errors import Obj
from kubesim.schema.paths import walk

LONGEST_SYSCTL = 253
SYSCTL = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
LONGEST_SEARCH = 253
_SEARCHED = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
SEARCH = re.compile(rf"{_SEARCHED}(\.{_SEARCHED})*")
SEARCH_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    f"start and end with an alphanumeric character (e.g. 'example.com', regex used for "
    f"validation is '{SEARCH.pattern}')"
)
NAMESPACED = {
    "hostNetwork": ("net.",),
    "hostIPC": ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."),
}
"""The kernel parameters of a namespace, by the field that says that it is the node's."""
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
COST = re.compile(r"0|-?[1-9][0-9]*")
MIRROR, APPARMOR = "kubernetes.io/config.mirror", "container.apparmor.security.beta.kubernetes.io/"


def pod_errors(pod: Obj) -> list[FieldError]:
    """Return what is wrong with a pod."""
    return errors_of("kinds", "pods", Place(pod))


@check
def pod_annotations(pod: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The annotations of a pod, or of a template of pods, that mean something."""
    notes = (pod.get("metadata") or {}).get("annotations")
    if not notes:
        return
    if MIRROR in notes and not (pod.get("spec") or {}).get("nodeName"):
        why = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid_value(f"{where}[{MIRROR}]", notes[MIRROR], why)
    if DELETION_COST in notes and not _is_cost(notes[DELETION_COST]):
        yield invalid_value(f"{where}[{DELETION_COST}]", notes[DELETION_COST], "must be a 32bit integer")


def _is_cost(text: str) -> bool:
    """Tell whether a text is a number of 32 bits as Go reads it, without a plus or noughts before it."""
    return bool(COST.fullmatch(text)) and -(2**31) <= int(text) < 2**31


def containers_of(spec: Obj, prefix: str) -> Iterator[tuple[str, Obj]]:
    """Yield all containers of a pod with their paths."""
    for field in ("initContainers", "containers", "ephemeralContainers"):
        yield from ((f"{prefix}{field}[{at}]", entry) for at, entry in enumerate(spec.get(field) or ()))


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


@check
def sysctls(values: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """Kernel parameters, each once, and none of a namespace that is the node's."""
    spec = place.above.value if place.above else {}
    first = first_places(sysctl.get("name") for sysctl in values)
    for at, sysctl in enumerate(values):
        name, path = sysctl.get("name", ""), f"{where}[{at}].name"
        if not name:
            yield required(path)
        elif len(name) > LONGEST_SYSCTL or not SYSCTL.fullmatch(name):
            why = f"must have at most {LONGEST_SYSCTL} characters and match regex ^{SYSCTL.pattern}$"
            yield invalid_value(path, name, why)
        elif first[name] < at:
            yield duplicate(path, name)
        for field, beginnings in NAMESPACED.items():
            if spec.get(field) and name.replace("/", ".").startswith(beginnings):
                yield invalid_value(path, name, f"may not be specified when '{field}' is true")


@check
def search_list(values: list[str], where: str, place: Place, most: int) -> Iterator[FieldError]:
    """The domains in which names are looked for, together no longer than so many characters."""
    if len(" ".join(values)) > most:
        why = f"must not have more than {most} characters (including spaces) in the search list"
        yield invalid_value(where, values, why)


@check
def search(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """A domain in which names are looked for: the root, or one whose parts may begin with underscores."""
    name = value.removesuffix(".")
    if value == ".":
        return
    if len(name) > LONGEST_SEARCH:
        yield invalid_value(where, name, f"must be no more than {LONGEST_SEARCH} characters")
    if not SEARCH.fullmatch(name):
        yield invalid_value(where, name, SEARCH_RULE)
