"""What is told of a new or changed object that is accepted but will surprise its author, in upstream's words.

Pods are told of only when they are made, templates also when they change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from kubesim import data
from kubesim.admission.prepare import TEMPLATES
from kubesim.admission.validation.metadata import dns_errors
from kubesim.api.quantity import parse
from kubesim.errors import Obj
from kubesim.schema.paths import dig, walk
from kubesim.schema.registry import Kind

MOST, LONGEST = 4096, 256
"""Characters of all warnings of an answer; where there are more, of each."""
_OLD: dict[str, dict[str, str]] = data.table(__file__, "warnings.yaml")
OLD_LABELS, OLD_NOTES, OLD_VOLUMES = _OLD["labels"], _OLD["annotations"], _OLD["volumes"]
HOLDERS = ("initContainers", "containers", "ephemeralContainers")
BYTES = ("memory", "ephemeral-storage")
LATER = "DuringSchedulingIgnoredDuringExecution"
NOTHING = "a null labelSelector results in matching no pod"
NAMES = {"pods": "the Pod's hostname"} | dict.fromkeys(
    ("deployments.apps", "replicasets.apps", "replicationcontrollers", "jobs.batch", "cronjobs.batch"),
    "Pod names and hostnames",
)
"""The kinds whose names are more than names, and what they are used in."""


def of_new(kind: Kind, obj: Obj) -> list[str]:
    """Return what is told of a new object."""
    return _enough(chain(_name(kind, obj), _of_pod(kind, obj)))


def _enough(texts: Iterable[str]) -> list[str]:
    """Return as many texts as are told; their number may be the square of that of the ports."""
    told, length = [], 0
    for text in texts:
        told.append(text)
        if length > MOST:
            break
        length += min(len(text), LONGEST)
    return told


def of_change(kind: Kind, old: Obj, new: Obj) -> list[str]:
    """Return what is told of a change."""
    path = TEMPLATES.get(kind.resource)
    return [] if path is None or old.get("spec") == new.get("spec") else _enough(_of_pod(kind, new))


def _name(kind: Kind, obj: Obj) -> Iterator[str]:
    name, used = obj["metadata"].get("name", ""), NAMES.get(kind.resource)
    if used and (wrong := dns_errors(name)):
        why = f"which can result in surprising behavior; a DNS label is recommended: [{' '.join(wrong)}]"
        yield f"metadata.name: this is used in {used}, {why}"


def _of_pod(kind: Kind, obj: Obj) -> Iterator[str]:
    path = () if kind.resource == "pods" else TEMPLATES.get(kind.resource)
    if path is None:
        return
    pod, where = obj, "".join(f"{step}." for step in path)
    for step in path:
        pod = pod.get(step) or {}
    spec, notes = pod.get("spec") or {}, (pod.get("metadata") or {}).get("annotations") or {}
    yield from _labels(spec, f"{where}spec")
    yield from (f"{where}metadata.annotations[{key}]: {why}" for key, why in OLD_NOTES.items() if key in notes)
    for place, volume in walk(spec, "volumes[]", f"{where}spec"):
        yield from (f"{place}.{way}: {why}" for way, why in OLD_VOLUMES.items() if way in volume)
    for place, holder in _holders(spec, f"{where}spec"):
        yield from _of_container(holder, place)


def _holders(spec: Obj, path: str) -> Iterator[tuple[str, Obj]]:
    for field in HOLDERS:
        yield from walk(spec, f"{field}[]", path)


def _labels(spec: Obj, path: str) -> Iterator[str]:
    """Yield what is told of labels that nodes no longer have."""
    selected = spec.get("nodeSelector") or {}
    yield from (f"{path}.nodeSelector[{key}]: {OLD_LABELS[key]}" for key in sorted(selected) if key in OLD_LABELS)
    for terms in ("required{}.nodeSelectorTerms[]", "preferred{}[].preference"):
        keys = f"affinity.nodeAffinity.{terms.format(LATER)}.matchExpressions[].key"
        yield from (f"{at}: {key} is {OLD_LABELS[key]}" for at, key in walk(spec, keys, path) if key in OLD_LABELS)
    for place, spread in walk(spec, "topologySpreadConstraints[]", path):
        key = spread.get("topologyKey", "")
        if key in OLD_LABELS:
            yield f"{place}.topologyKey: {key} is {OLD_LABELS[key]}"
        if spread.get("labelSelector") is None:
            yield f"{place}.labelSelector: {NOTHING}"


def _bytes(amounts: Obj, path: str) -> Iterator[str]:
    for name in BYTES:
        if name in amounts and parse(amounts[name]).denominator != 1:
            yield f'{path}[{name}]: fractional byte value "{amounts[name]}" is invalid, must be an integer'


def _of_container(holder: Obj, path: str) -> Iterator[str]:
    for name in BYTES:
        for part in ("limits", "requests"):
            given = (dig(holder, f"resources.{part}") or {}).get(name)
            yield from _bytes({name: given} if given is not None else {}, f"{path}.resources.{part}")
    seen = set()
    for at, entry in enumerate(holder.get("env") or ()):
        name, value = entry.get("name", ""), entry.get("value") or ""
        refers = f"$({name})" in value and value != f"$({name})"
        if name in seen and (entry.get("valueFrom") or not refers):
            yield f'{path}.env[{at}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)
