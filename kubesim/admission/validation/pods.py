"""The rules of pods and their containers that are more than a line of the tables in ``rules/``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from kubesim.admission.validation.checks import first_places, form_errors, is_repeated
from kubesim.admission.validation.rules import Place, check, errors_of
from kubesim.admission.validation.volumes import pod_of
from kubesim.api.quantity import parse
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
from kubesim.schema.paths import dig, walk

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


REFERENCES = (
    *("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"),
    *("spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "spec.schedulerName", "status.phase"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
"""Fields of a pod that may be told to its containers at all."""
OLD_REFERENCES = {"spec.host": "spec.nodeName"}
MEASURED = tuple(
    f"{part}.{name}" for part in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
PAGES = ("requests.hugepages-", "limits.hugepages-")
UNITS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
DIVISORS = {
    "cpu": (("1m", "1"), "1m and 1 are supported with the cpu resource"),
    "memory": (UNITS, f"{', '.join(UNITS)} are supported with the memory resource"),
    "ephemeral-storage": (UNITS, f"{', '.join(UNITS)} are supported with the local ephemeral storage resource"),
}
"""The units in which an amount may be told, and how others are refused."""
OF_PAGES = (UNITS, f"{', '.join(UNITS)} are supported with the hugepages resource")
SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")
NO_SOURCE = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
SEVERAL_SOURCES = "may not have more than one field specified at a time"
RESIZED, RESIZES = ("cpu", "memory"), ("NotRequired", "RestartContainer")


def spec_of(place: Place) -> Place:
    """Return the place of the PodSpec that something lies in."""
    while "containers" not in place.value and place.above is not None:
        place = place.above
    return place


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


@check
def own_host_ports(ports: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """The ports of the node that an init container takes; upstream takes each for the first."""
    return _taken_ports(ports, f"{place.path.rpartition('[')[0]}[0].ports", set())


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
def divisor(value: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """The unit in which an amount is told."""
    name, unit = value.get("resource", ""), value.get("divisor", "0")
    known = OF_PAGES if name.startswith(PAGES) else DIVISORS.get(name.partition(".")[2]) if name in MEASURED else None
    if known and parse(unit) and unit not in known[0]:
        yield invalid_value(f"{where}.divisor", name, f"only divisor's values {known[1]}")


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
def sleep(value: Obj, where: str, place: Place) -> Iterator[FieldError]:
    """A sleep before the end, which comes sooner."""
    seconds = value.get("seconds", 0)
    left = spec_of(place).value.get("terminationGracePeriodSeconds", 30)
    if not 0 <= seconds <= left:
        why = f"must be non-negative and less than terminationGracePeriodSeconds ({left})"
        yield invalid_value(where, seconds, why)


@check
def unmasked(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """All of /proc is for containers with users of their own."""
    if value == "Unmasked" and spec_of(place).value.get("hostUsers", True):
        yield invalid_value(where, value, "`hostUsers` must be false to use `Unmasked`")


@check
def resize_policy(values: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """Policies for a container whose resources change; upstream speaks of the list."""
    never = spec_of(place).value.get("restartPolicy") == "Never"
    seen: set[Any] = set()
    for at, entry in enumerate(values):
        name, policy = entry.get("resourceName", ""), entry.get("restartPolicy", "")
        if name in seen:
            yield duplicate(f"{where}[{at}]", name)
        seen.add(name)
        for value, choices in ((name, RESIZED), (policy, RESIZES)):
            if not value:
                yield required(where)
            elif value not in choices:
                yield unsupported(where, value, choices)
        if never and policy != "NotRequired":
            yield invalid_value(where, policy, "must be 'NotRequired' when `restartPolicy` is 'Never'")


MAX_REPEATS_TOLD = 1_000
"""Upstream tells of every pair of terms that are alike: of very many, no more than these."""


@check
def topologies(terms: list[Obj], where: str, place: Place) -> Iterator[FieldError]:
    """Topologies in which volumes may be made: upstream takes a term without expressions for a known one."""
    known = Counter({frozenset(): len(terms)})  # type: Counter[frozenset[tuple[str, frozenset[str]]]]
    told = 0
    for at, term in enumerate(terms):
        path, found = f"{where}[{at}].matchLabelExpressions", {}  # type: str, dict[str, frozenset[str]]
        for number, entry in enumerate(term.get("matchLabelExpressions") or ()):
            yield from errors_of("types", "TopologyRequirement", Place(entry, f"{path}[{number}]"))
            if entry.get("key", "") in found:
                yield duplicate(f"{path}[{number}].key", entry.get("key", ""))
            found[entry.get("key", "")] = frozenset(entry.get("values") or ())
        term_key = frozenset(found.items())
        again = min(known[term_key], MAX_REPEATS_TOLD - told)
        yield from (duplicate(path, "") for _ in range(again))
        told += again
        known[term_key] += 1


@check
def tolerated(value: str, where: str, place: Place) -> Iterator[FieldError]:
    """The value of a taint that a pod tolerates; all that is wrong with it is one error."""
    if wrong := value_errors(value):
        yield invalid_value(where, value, ";".join(wrong))


@check
def selected_once(keys: list[str], where: str, place: Place) -> Iterator[FieldError]:
    """Keys of labels that are chosen by in one way: by the pod's own, by others', or by the selector."""
    selector = place.value.get("labelSelector") or {}
    places = {key: at for at, key in enumerate(keys)}
    known = set(selector.get("matchLabels") or ())
    for term in selector.get("matchExpressions") or ():
        key = term.get("key", "")
        if key in places and key in known:
            why = "exists in both matchLabelKeys and labelSelector"
            yield invalid_value(f"{place.path}[{places[key]}]", key, why)
        known.add(key)
    others = set(place.value.get("mismatchLabelKeys") or ())
    for at, key in enumerate(keys):
        if key in others:
            yield invalid_value(f"{where}[{at}]", key, "exists in both matchLabelKeys and mismatchLabelKeys")


@check
def unlike_those_after(entry: Obj, where: str, place: Place, fields: Sequence[str]) -> Iterator[FieldError]:
    """An entry of a list, none of which after it has the same in some fields together."""
    path, _, at = place.path.removesuffix("]").rpartition("[")
    above = place.above
    shown = [entry.get(field, "") for field in fields]

    def find() -> dict[tuple[str, ...], int]:
        siblings = dig(above.value, path[len(above.path) :].removeprefix(".")) if above else ()
        return {tuple(other.get(field, "") for field in fields): number for number, other in enumerate(siblings)}

    if above is not None and above.known(f"last {fields} of {path}", find)[tuple(shown)] > int(at):
        yield duplicate(f"{where}.{{{', '.join(fields)}}}", f"{{{', '.join(shown)}}}")


@check
def few_domains(count: int, where: str, place: Place) -> Iterator[FieldError]:
    """The least number of domains, which only a constraint that must be fulfilled has."""
    action = place.value.get("whenUnsatisfiable", "")
    if action != "DoNotSchedule":
        why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield invalid_value(where, count, why)
