"""LimitRanger: default limits and requests of containers, and the bounds that a namespace's LimitRanges set.

Bounds hold for each container, for a pod as a whole, or for a claim on storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from kubesim.api import status
from kubesim.api.quantity import Format, parse, write
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

NOTE = "kubernetes.io/limit-ranger"
Amounts = dict[str, str]
FIXED_SIZE = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


def apply(ops: Operations, kind: Kind, pod: Obj) -> None:
    """Set a pod's defaults and refuse (403) what is outside the bounds."""
    items = list(_items(ops, pod["metadata"]["namespace"]))
    spec = pod["spec"]
    containers = [(name, holder) for name in ("containers", "initContainers") for holder in spec.get(name, ())]
    own = [item for item in items if item.get("type") == "Container"]
    told: list[str] = []
    for name, holder in containers:
        before = {part: {**given} for part, given in _resources(holder).items()}
        for item in own:
            _set_defaults(holder, item)
        told += _told(name, holder, before)
    if told:
        notes = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**notes, NOTE: f"LimitRanger plugin set: {'; '.join(told)}"}
    errors = [error for item in own for _, holder in containers for error in _broken(item, _resources(holder))]
    for item in items:
        if item.get("type") == "Pod":
            errors += _broken(item, {part: _total(spec, part, item) for part in ("requests", "limits")})
    _refuse(kind, pod, errors)


def check_claim(ops: Operations, kind: Kind, claim: Obj) -> None:
    """Refuse (403) a claim on more or less storage than is allowed."""
    items = [item for item in _items(ops, claim["metadata"]["namespace"]) if item.get("type") == kind.kind]
    requests = claim["spec"].get("resources", {}).get("requests", {})
    resources = {"requests": requests, "limits": requests}
    _refuse(kind, claim, [error for item in items for error in _broken(item, resources, claimed=True)])


def check_growth(ops: Operations, kind: Kind, old: Obj, new: Obj) -> None:
    """Refuse (403) to let a claim grow that is not bound, or whose class does not let its volumes grow."""
    sizes = [
        parse((claim["spec"].get("resources") or {}).get("requests", {}).get("storage", "0")) for claim in (old, new)
    ]
    if sizes[1] <= sizes[0]:
        return
    if old.get("status", {}).get("phase") != "Bound":
        raise status.forbidden(kind, new["metadata"]["name"], "Only bound persistent volume claims can be expanded")
    names = {claim["spec"].get("storageClassName") or "" for claim in (old, new)}
    classes = ops.registry.by_resource("storageclasses.storage.k8s.io")
    found = ops.store.get(classes, "", names.pop()) if len(names) == 1 else None
    if found is None or not found.get("allowVolumeExpansion"):
        raise status.forbidden(kind, new["metadata"]["name"], FIXED_SIZE)


def _items(ops: Operations, namespace: str) -> Iterator[Obj]:
    for found in ops.store.list(ops.registry.by_resource("limitranges"), namespace):
        yield from found["spec"].get("limits") or ()


def _refuse(kind: Kind, obj: Obj, errors: list[str]) -> None:
    if errors:
        text = errors[0] if len(errors) == 1 else "[" + ", ".join(errors) + "]"
        raise status.forbidden(kind, obj["metadata"].get("name", ""), text)


def _set_defaults(holder: Obj, item: Obj) -> None:
    resources = holder.setdefault("resources", {})
    for part, source in (("limits", "default"), ("requests", "defaultRequest")):
        merged = {**item.get(source, {}), **resources.get(part, {})}
        if merged:
            resources[part] = merged


def _told(field: str, holder: Obj, before: dict[str, Amounts]) -> Iterator[str]:
    """Yield what a container was given that it did not ask for."""
    what = "init container" if field == "initContainers" else "container"
    for part, word in (("requests", "request"), ("limits", "limit")):
        if added := sorted(set(_resources(holder)[part]) - set(before[part])):
            yield f"{', '.join(added)} {word} for {what} {holder['name']}"


def _resources(holder: Obj) -> dict[str, Amounts]:
    resources = holder.get("resources", {})
    return {part: resources.get(part, {}) for part in ("requests", "limits")}


def _total(spec: Obj, part: str, item: Obj) -> Amounts:
    """Return what a pod as a whole asks for, of the resources that an item speaks of."""
    total = {}
    for name in dict.fromkeys(key for bound in ("min", "max", "maxLimitRequestRatio") for key in item.get(bound, {})):
        running = [_resources(c)[part].get(name) for c in spec.get("containers", ())]
        starting = [_resources(c)[part].get(name) for c in spec.get("initContainers", ())]
        given = [text for text in (*running, *starting) if text is not None]
        if given:
            usual = sum((parse(text) for text in running if text is not None), Fraction())
            form: Format = "binary" if given[0].endswith("i") else "decimal"
            total[name] = write(max([usual, *(parse(text) for text in starting if text is not None)]), form)
    return total


def _broken(item: Obj, resources: dict[str, Amounts], *, claimed: bool = False) -> Iterator[str]:
    """Yield a sentence for every bound of an item that is broken."""
    requests, limits, what = resources["requests"], resources["limits"], item.get("type", "")
    for name, bound in sorted(item.get("min", {}).items()):
        yield from _below(f"minimum {name} usage per {what} is {bound}", bound, requests.get(name), limits.get(name))
    for name, bound in sorted(item.get("max", {}).items()):
        text = f"maximum {name} usage per {what} is {bound}"
        yield from _above(text, bound, requests.get(name), None if claimed else limits.get(name), claimed=claimed)
    for name, bound in sorted(item.get("maxLimitRequestRatio", {}).items()):
        text = f"{name} max limit to request ratio per {what} is {bound}"
        yield from _ratio(text, bound, requests.get(name), limits.get(name))


def _below(text: str, bound: str, request: str | None, limit: str | None) -> Iterator[str]:
    if request is None:
        yield f"{text}.  No request is specified"
    elif parse(request) < parse(bound):
        yield f"{text}, but request is {request}"
    elif limit is not None and parse(limit) < parse(bound):
        yield f"{text}, but limit is {limit}"


def _above(text: str, bound: str, request: str | None, limit: str | None, *, claimed: bool) -> Iterator[str]:
    if limit is None and not claimed:
        yield f"{text}.  No limit is specified"
    elif limit is not None and parse(limit) > parse(bound):
        yield f"{text}, but limit is {limit}"
    elif request is not None and parse(request) > parse(bound):
        yield f"{text}, but request is {request}"


def _ratio(text: str, bound: str, request: str | None, limit: str | None) -> Iterator[str]:
    if request is None or not parse(request):
        yield f"{text}, but no request is specified or request is 0"
    elif limit is None or not parse(limit):
        yield f"{text}, but no limit is specified or limit is 0"
    elif (given := parse(limit) / parse(request)) > parse(bound):
        yield f"{text}, but provided ratio is {float(given):.6f}"
