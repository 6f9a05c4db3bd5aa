"""The eviction of a pod: its deletion, unless a disruption budget forbids it now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesim import admission
from kubesim.api import deletion, meta, status
from kubesim.api.options import Options
from kubesim.api.selectors import from_struct
from kubesim.errors import ApiError, Obj
from kubesim.schema.paths import is_true
from kubesim.schema.registry import Kind

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

BUDGETS = "poddisruptionbudgets.policy"
VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
MOST_DISRUPTED = 2000
RETRY_S = 10
EVICTED = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}


def evict(ops: Operations, kind: Kind, namespace: str, name: str, body: Obj, options: Options) -> Obj:
    """Delete a pod and mark it as disrupted. Raises 429 where a budget forbids it now, 500 for two budgets."""
    body = admission.decode_body("Eviction", body)
    if (body.get("metadata") or {}).get("name", name) != name:
        raise status.bad_request("name in URL does not match name in Eviction object")
    pod = ops.store.get(kind, namespace, name)
    if pod is None:
        raise status.not_found(kind, name)
    wanted = body.get("deleteOptions") or {}
    if wanted.get("dryRun"):
        options.dry_run = True
    if pod.get("status", {}).get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp"):
        _ask_budget(ops, pod, options)
    meta.check_preconditions(kind, pod, wanted.get("preconditions"))
    if not options.dry_run:
        pod = ops.store.update(kind, {**pod, "status": _disrupted(pod, meta.rfc3339(ops.clock.now()))})
        if (wanted.get("preconditions") or {}).get("resourceVersion"):
            own = {**wanted["preconditions"], "resourceVersion": pod["metadata"]["resourceVersion"]}
            wanted = {**wanted, "preconditions": own}
    deletion.delete(ops, kind, pod, wanted, options)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _disrupted(pod: Obj, now: str) -> Obj:
    """Return a pod's status with the condition that tells of its eviction."""
    found = pod.get("status", {})
    others = [each for each in found.get("conditions") or () if each["type"] != "DisruptionTarget"]
    old: Obj = next((each for each in found.get("conditions") or () if each["type"] == "DisruptionTarget"), {})
    since = old["lastTransitionTime"] if old.get("status") == "True" else now
    fresh = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None, "lastTransitionTime": since}
    return {**found, "conditions": [*others, fresh | EVICTED]}


def _ask_budget(ops: Operations, pod: Obj, options: Options) -> None:
    """Count a disruption against the one budget of a running pod, unless a budget lets unready pods go."""
    budgets, namespace = ops.registry.by_resource(BUDGETS), pod["metadata"]["namespace"]
    guarding = [b for b in ops.store.list(budgets, namespace) if from_struct(b["spec"].get("selector")).selects(pod)]
    if len(guarding) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise ApiError(500, "", text)
    for budget in guarding:
        if is_true(pod, "Ready") or not _unready_may_go(budget):
            left = _taken(budget, pod["metadata"]["name"], meta.rfc3339(ops.clock.now()))
            if not options.dry_run:
                ops.store.update(budgets, {**budget, "status": left})


def _unready_may_go(budget: Obj) -> bool:
    """Whether unready pods may be evicted: always, or as long as those that must be healthy are."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    found = budget.get("status", {})
    return bool(found.get("currentHealthy", 0) >= found.get("desiredHealthy", 0) > 0)


def _taken(budget: Obj, pod: str, now: str) -> Obj:
    """Return a budget's status with one disruption less; raises 429 where none is left, 403 where nobody knows."""
    name, found = budget["metadata"]["name"], budget.get("status", {})
    allowed = found.get("disruptionsAllowed", 0)
    if found.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _forbidden(f"The disruption budget {name} is still being processed by the server.", RETRY_S)
    if len(found.get("disruptedPods") or {}) > MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        text = f'poddisruptionbudget.policy "{name}" is forbidden: {why}'
        raise ApiError(403, "Forbidden", text, {"name": name, "group": "policy", "kind": "poddisruptionbudget"})
    if not allowed:
        healthy, desired = found.get("currentHealthy", 0), found.get("desiredHealthy", 0)
        raise _forbidden(f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
    left = {**found, "disruptionsAllowed": allowed - 1}
    left["disruptedPods"] = {**(found.get("disruptedPods") or {}), pod: now}
    if allowed == 1:
        left["conditions"] = [_none_left(each, now) for each in found.get("conditions") or ()]
    return left


def _none_left(condition: Obj, now: str) -> Obj:
    if condition["type"] != "DisruptionAllowed":
        return condition
    return {**condition, "status": "False", "reason": "InsufficientPods", "lastTransitionTime": now}


def _forbidden(cause: str, retry_s: int = 0) -> ApiError:
    details: Obj = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    return status.too_many_requests(VIOLATED, details | ({"retryAfterSeconds": retry_s} if retry_s else {}))
