"""LimitRanger: default limits and requests of containers, and the bounds of a namespace's LimitRanges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesim.api import status
from kubesim.api.quantity import parse
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

if TYPE_CHECKING:
    from kubesim.api.operations import Operations


def apply(ops: Operations, kind: Kind, pod: Obj) -> None:
    """Set a pod's defaults and refuse (403) what is outside the bounds."""
    ranges = ops.store.list(ops.registry.by_resource("limitranges"), pod["metadata"]["namespace"])
    items = [item for found in ranges for item in found["spec"].get("limits", ()) if item.get("type") == "Container"]
    if not items:
        return
    holders = [*pod["spec"].get("containers", ()), *pod["spec"].get("initContainers", ())]
    for item in items:
        for holder in holders:
            _set_defaults(holder, item)
    errors = [error for item in items for holder in holders for error in _violations(holder, item)]
    if errors:
        text = errors[0] if len(errors) == 1 else "[" + ", ".join(errors) + "]"
        raise status.forbidden(kind, pod["metadata"].get("name", ""), text)


def _set_defaults(holder: Obj, item: Obj) -> None:
    resources = holder.setdefault("resources", {})
    for part, source in (("limits", "default"), ("requests", "defaultRequest")):
        merged = {**item.get(source, {}), **resources.get(part, {})}
        if merged:
            resources[part] = merged


def _violations(holder: Obj, item: Obj) -> list[str]:
    resources = holder.get("resources", {})
    errors = []
    for name, bound in sorted(item.get("min", {}).items()):
        errors += _below(name, bound, resources)
    for name, bound in sorted(item.get("max", {}).items()):
        errors += _above(name, bound, resources)
    return errors


def _below(name: str, bound: str, resources: Obj) -> list[str]:
    request = resources.get("requests", {}).get(name)
    if request is None:
        return [f"minimum {name} usage per Container is {bound}.  No request is specified"]
    if parse(request) < parse(bound):
        return [f"minimum {name} usage per Container is {bound}, but request is {request}"]
    return []


def _above(name: str, bound: str, resources: Obj) -> list[str]:
    limit = resources.get("limits", {}).get(name)
    if limit is None:
        return [f"maximum {name} usage per Container is {bound}.  No limit is specified"]
    if parse(limit) > parse(bound):
        return [f"maximum {name} usage per Container is {bound}, but limit is {limit}"]
    return []
