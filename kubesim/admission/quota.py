"""ResourceQuota: what a new object asks for must fit beside what its namespace uses (403).

Usage is counted from the store at the moment of the request, so it is right even before a controller has written
status.used. Quotas with scopes are not read by this step.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from kubesim.api import status
from kubesim.api.quantity import Format, parse, write
from kubesim.errors import Obj
from kubesim.schema.registry import Kind
from kubesim.store import Stored

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

Usage = dict[str, Fraction]
ENDED = ("Succeeded", "Failed")
SHORT = ("cpu", "memory", "ephemeral-storage")
COUNTED = ("configmaps", "persistentvolumeclaims", "replicationcontrollers", "secrets", "services", "resourcequotas")


def check(ops: Operations, kind: Kind, new: Obj) -> None:
    """Raise 403 where the new object would exceed a quota of its namespace."""
    if not kind.namespaced or kind.resource == "resourcequotas":
        return
    namespace, name = new["metadata"]["namespace"], new["metadata"].get("name", "")
    for quota in ops.store.list(ops.registry.by_resource("resourcequotas"), namespace):
        hard = {key: parse(value) for key, value in quota["spec"].get("hard", {}).items()}
        if quota["spec"].get("scopes") or quota["spec"].get("scopeSelector"):
            continue
        if kind.resource == "pods":
            _check_stated(kind, name, quota, hard, new)
        asked = {key: value for key, value in usage_of(kind, new).items() if key in hard and value}
        if asked:
            _check_fits(kind, name, quota, hard, asked, used(ops, kind, namespace))


def _check_fits(kind: Kind, name: str, quota: Obj, hard: Usage, asked: Usage, now: Usage) -> None:
    over = sorted(key for key, value in asked.items() if now.get(key, 0) + value > hard[key])
    if not over:
        return
    requested = ",".join(f"{key}={write(asked[key], form_of(quota, key))}" for key in over)
    taken = ",".join(f"{key}={write(now.get(key, Fraction()), form_of(quota, key))}" for key in over)
    limited = ",".join(f"{key}={quota['spec']['hard'][key]}" for key in over)
    why = f"exceeded quota: {quota['metadata']['name']}, requested: {requested}, used: {taken}, limited: {limited}"
    raise status.forbidden(kind, name, why)


def _check_stated(kind: Kind, name: str, quota: Obj, hard: Usage, pod: Obj) -> None:
    """Every container must state what the quota limits for cpu and memory."""
    lacking = []
    for key in sorted(hard):
        part, _, resource = key.rpartition(".")
        if resource not in ("cpu", "memory") or part not in ("", "requests", "limits"):
            continue
        holders = [*pod["spec"].get("containers", ()), *pod["spec"].get("initContainers", ())]
        without = [h["name"] for h in holders if resource not in h.get("resources", {}).get(part or "requests", {})]
        if without:
            lacking.append(f"{key} for: {','.join(without)}")
    if lacking:
        why = f"failed quota: {quota['metadata']['name']}: must specify {'; '.join(lacking)}"
        raise status.forbidden(kind, name, why)


def form_of(quota: Obj, key: str) -> Format:
    """Return the form in which a quota writes one resource."""
    return "binary" if quota["spec"]["hard"][key].endswith("i") else "decimal"


def used(ops: Operations, kind: Kind, namespace: str) -> Usage:
    """Return what the objects of one kind use in a namespace."""
    total: Usage = {}
    for obj in ops.store.list(kind, namespace):
        for key, value in usage_of(kind, obj).items():
            total[key] = total.get(key, Fraction()) + value
    return total


def usage_of(kind: Kind, obj: Stored | Obj) -> Usage:
    """Return what one object counts against quotas, by the quota's names."""
    one = Fraction(1)
    group = f".{kind.group}" if kind.group else ""
    counts: Usage = {f"count/{kind.plural}{group}": one}
    if kind.resource in COUNTED:
        counts[kind.resource] = one
    if kind.resource != "pods":
        return counts
    if obj.get("status", {}).get("phase") in ENDED:
        return counts
    return counts | {"pods": one} | _pod_usage(obj["spec"])


def _pod_usage(spec: Obj) -> Usage:
    usage: Usage = {}
    for part in ("requests", "limits"):
        total: Usage = {}
        for holder in spec.get("containers", ()):
            for name, value in holder.get("resources", {}).get(part, {}).items():
                total[name] = total.get(name, Fraction()) + parse(value)
        for holder in spec.get("initContainers", ()):
            for name, value in holder.get("resources", {}).get(part, {}).items():
                total[name] = max(total.get(name, Fraction()), parse(value))
        usage |= {f"{part}.{name}": value for name, value in total.items()}
        if part == "requests":
            usage |= {name: value for name, value in total.items() if name in SHORT}
    return usage
