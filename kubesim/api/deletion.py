"""Deletion: at once, gracefully (pods), or when the last finalizer is gone; and the eviction of pods.

An eviction is a deletion, unless a disruption budget forbids it now.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kubesim import admission
from kubesim.api import meta, status
from kubesim.api.options import Options
from kubesim.api.selectors import from_struct
from kubesim.api.status import TEXTS
from kubesim.conditions import condition_of, without
from kubesim.errors import ApiError, Obj
from kubesim.schema.paths import is_true
from kubesim.schema.registry import Kind
from kubesim.store import Stored, key_of

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

FINALIZER_OF = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
PRIORITIES = "priorityclasses.scheduling.k8s.io"
ENDED = ("Succeeded", "Failed")
ORPHANS_WARNING = TEXTS["orphans"]
BUDGETS = "poddisruptionbudgets.policy"
VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
MOST_DISRUPTED = 2000
RETRY_S = 10
EVICTED = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}


def delete(ops: Operations, kind: Kind, obj: Stored, wanted: Obj, options: Options) -> Obj:
    """Delete an object, or mark it for those who must act first. Returns the body of the answer."""
    meta.check_preconditions(kind, obj, wanted.get("preconditions"))
    admission.of_deletion(ops, kind, obj, options)
    if kind.resource == PRIORITIES and obj["metadata"]["name"].startswith("system-"):
        why = "this is a system priority class and cannot be deleted"
        raise status.forbidden(kind, obj["metadata"]["name"], why)
    policy = _policy(kind, wanted, options)
    grace = grace_of(kind, obj, wanted)
    finalizers = _finalizers(kind, obj, policy)
    if kind.resource == "namespaces":
        return _end_namespace(ops, kind, obj, options)
    if not finalizers and grace == 0:
        return _remove(ops, kind, obj, options)
    marked = _marked(ops, obj, grace, finalizers)
    if marked == obj or options.dry_run:
        return marked
    return ops.store.update(kind, marked)


def is_due(kind: Kind, obj: Obj) -> bool:
    """Tell whether an object that is being deleted waits for nobody any more."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if kind.resource == "namespaces" and obj.get("spec", {}).get("finalizers"):
        return False
    return not (kind.graceful and metadata.get("deletionGracePeriodSeconds"))


def grace_of(kind: Kind, obj: Obj, wanted: Obj) -> int:
    """Return the seconds that an object gets to end: a pod that runs nowhere, or has ended, gets none."""
    if not kind.graceful:
        return 0
    grace = wanted.get("gracePeriodSeconds")
    if grace is None:
        grace = obj["spec"].get("terminationGracePeriodSeconds", 30)
    if not obj["spec"].get("nodeName") or obj.get("status", {}).get("phase") in ENDED:
        return 0
    return 1 if grace < 0 else int(grace)


def _policy(kind: Kind, wanted: Obj, options: Options) -> str:
    policy = wanted.get("propagationPolicy") or ""
    if wanted.get("orphanDependents") is not None:
        policy = "Orphan" if wanted["orphanDependents"] else "Background"
    if not policy and kind.propagation == "Orphan":
        options.warnings.append(ORPHANS_WARNING)
    return policy or kind.propagation


def _finalizers(kind: Kind, obj: Obj, policy: str) -> list[str]:
    """Return the finalizers that the object has from now on: the policy decides on those of the garbage collector."""
    own = [name for name in obj["metadata"].get("finalizers", ()) if name not in FINALIZER_OF.values()]
    if kind.cleanup and kind.cleanup not in own and not obj["metadata"].get("deletionTimestamp"):
        own.append(kind.cleanup)
    wanted = FINALIZER_OF.get(policy)
    return [*own, wanted] if wanted else own


def _marked(ops: Operations, obj: Obj, grace: int, finalizers: list[str]) -> Obj:
    """Return the object with the time of its end; one that is ending already can only end sooner."""
    metadata = dict(obj["metadata"])
    before, ending = metadata.get("deletionGracePeriodSeconds"), metadata.get("deletionTimestamp") is not None
    if not ending or (before is not None and grace < before):
        metadata["deletionTimestamp"] = meta.rfc3339(ops.clock.now() + timedelta(seconds=grace))
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation") and not ending:
            metadata["generation"] += 1
    if finalizers:
        metadata["finalizers"] = finalizers
    return meta.ordered({**obj, "metadata": metadata})


def _remove(ops: Operations, kind: Kind, obj: Stored, options: Options) -> Obj:
    """Remove an object; one that might have had time to end is marked first, as its watchers see."""
    last: Obj = obj
    if not options.dry_run:
        if kind.graceful and (marked := _marked(ops, obj, 0, [])) != obj:
            ops.store.update(kind, marked)
        last = ops.store.delete(kind, *key_of(obj))
    return last if kind.returns_deleted else _done(kind, obj)


def _done(kind: Kind, obj: Obj) -> Obj:
    details = status.details(kind, obj["metadata"]["name"]) | {"uid": obj["metadata"]["uid"]}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _end_namespace(ops: Operations, kind: Kind, obj: Stored, options: Options) -> Obj:
    """A namespace becomes Terminating and stays until its controller has emptied and finalized it."""
    metadata = obj["metadata"]
    if metadata["name"] in ("default", "kube-system", "kube-public"):
        raise status.forbidden(kind, metadata["name"], "this namespace may not be deleted")
    if metadata.get("deletionTimestamp"):
        return obj
    if not metadata.get("finalizers") and not obj.get("spec", {}).get("finalizers"):
        return _remove(ops, kind, obj, options)
    stamped = {**metadata, "deletionTimestamp": meta.rfc3339(ops.clock.now())}
    ending = {**obj, "metadata": stamped, "status": {**obj.get("status", {}), "phase": "Terminating"}}
    return ending if options.dry_run else ops.store.update(kind, ending)


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
    delete(ops, kind, pod, wanted, options)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _disrupted(pod: Obj, now: str) -> Obj:
    """Return a pod's status with the condition that tells of its eviction."""
    found = pod.get("status", {})
    others, old = without(found.get("conditions"), "DisruptionTarget"), condition_of(found, "DisruptionTarget")
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
    """Tell whether unready pods may be evicted: always, or as long as those that must be healthy are."""
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
    return ApiError(429, "TooManyRequests", VIOLATED, details | ({"retryAfterSeconds": retry_s} if retry_s else {}))
