"""ResourceQuota: what a new object asks for must fit beside what its namespace uses (403).

Usage is that of the store at the moment of the request, so it is right even before a controller has written
status.used. A quota with scopes counts only the pods that its scopes choose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesim.admission.usage import Usage, billionths, chosen, usage_of, written
from kubesim.api import status
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

if TYPE_CHECKING:
    from kubesim.api.operations import Operations


def check(ops: Operations, kind: Kind, new: Obj, old: Obj | None = None) -> None:
    """Raise 403 where the new object, or what a change adds to it, would exceed a quota of its namespace."""
    if not kind.namespaced or kind.resource == "resourcequotas":
        return
    namespace, name = new["metadata"]["namespace"], new["metadata"].get("name", "")
    for quota in ops.store.list(ops.registry.by_resource("resourcequotas"), namespace):
        hard = {key: billionths(value) for key, value in quota["spec"].get("hard", {}).items()}
        if not chosen(quota["spec"], kind, new):
            continue
        if kind.resource == "pods" and old is None:
            _check_stated(kind, name, quota, hard, new)
        before = usage_of(kind, old) if old is not None else {}
        asked = {key: value - before.get(key, 0) for key, value in usage_of(kind, new).items() if key in hard}
        asked = {key: value for key, value in asked.items() if value > 0}
        if asked:
            _check_fits(kind, name, quota, hard, asked, ops.ledger.used(kind, namespace, quota))


def _check_fits(kind: Kind, name: str, quota: Obj, hard: Usage, asked: Usage, now: Usage) -> None:
    over = sorted(key for key, value in asked.items() if now.get(key, 0) + value > hard[key])
    if not over:
        return
    requested = ",".join(f"{key}={written(asked[key], quota, key)}" for key in over)
    taken = ",".join(f"{key}={written(now.get(key, 0), quota, key)}" for key in over)
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
