"""The status of a deployment: its numbers, and the conditions that tell how its roll-out goes."""

from __future__ import annotations

from datetime import datetime

from kubesim.conditions import condition_of, renewed, without
from kubesim.controllers.deployment_sets import bounds, counted, replicas_of, total
from kubesim.errors import Obj
from kubesim.times import parse, stamp

NO_DEADLINE = 2**31 - 1
COMPLETE, TIMED_OUT, PAUSED = "NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"
COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")


def has_deadline(deployment: Obj) -> bool:
    """Whether the roll-out's progress is watched."""
    return bool(deployment["spec"].get("progressDeadlineSeconds", NO_DEADLINE) != NO_DEADLINE)


def set_condition(status: Obj, now: datetime, kind: str, truth: str, reason: str, message: str) -> bool:
    """Set a condition unless it stands with this truth and reason; tells whether that changed anything."""
    old = condition_of(status, kind)
    if (old.get("status"), old.get("reason")) == (truth, reason):
        return False
    fresh = renewed(old, kind, (truth, reason, message), now)
    _put(status, fresh | {"lastUpdateTime": stamp(now)})
    return True


def _put(status: Obj, fresh: Obj) -> None:
    """Put a condition at the end, in place of the one of its type."""
    status["conditions"] = [*without(status.get("conditions"), fresh["type"]), fresh]


def drop_condition(status: Obj, kind: str) -> None:
    """Take a condition away."""
    conditions = without(status.pop("conditions", None), kind)
    status |= {"conditions": conditions} if conditions else {}


def count(deployment: Obj, sets: list[Obj], newest: Obj | None, now: datetime) -> Obj:
    """Return the status with its numbers and whether enough pods are available."""
    available = counted(sets, "availableReplicas")
    numbers = {
        "replicas": counted(sets, "replicas"),
        "updatedReplicas": counted([newest] if newest is not None else [], "replicas"),
        "readyReplicas": counted(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, total(sets) - available),
    }
    status = {name: value for name, value in deployment.get("status", {}).items() if name not in COUNTS}
    status |= {name: number for name, number in numbers.items() if number}
    status["observedGeneration"] = deployment["metadata"].get("generation", 1)
    if available >= replicas_of(deployment) - bounds(deployment)[1]:
        text = "Deployment has minimum availability."
        set_condition(status, now, "Available", "True", "MinimumReplicasAvailable", text)
    else:
        text = "Deployment does not have minimum availability."
        set_condition(status, now, "Available", "False", "MinimumReplicasUnavailable", text)
    return status


def judge_progress(deployment: Obj, status: Obj, newest: Obj | None, now: datetime) -> None:
    """Say in the status whether the roll-out is through, goes on, or has made no progress for too long."""
    if not has_deadline(deployment):
        drop_condition(status, "Progressing")
        return
    old = condition_of(deployment.get("status"), "Progressing")
    settled = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    if settled and old.get("reason") == COMPLETE:
        return
    meta = (newest or deployment)["metadata"]
    what = f'{"ReplicaSet" if newest is not None else "Deployment"} "{meta["name"]}"'
    if is_complete(deployment, status):
        set_condition(status, now, "Progressing", "True", COMPLETE, f"{what} has successfully progressed.")
    elif _has_moved(deployment.get("status", {}), status):
        fresh = renewed(old, "Progressing", ("True", "ReplicaSetUpdated", f"{what} is progressing."), now)
        _put(status, fresh | {"lastUpdateTime": stamp(now)})
    elif old and _is_over(deployment, old, now):
        set_condition(status, now, "Progressing", "False", TIMED_OUT, f"{what} has timed out progressing.")


def is_complete(deployment: Obj, status: Obj) -> bool:
    """Whether all pods are of the newest template and available, and no other is left."""
    wanted = {replicas_of(deployment)}
    numbers = {status.get(name, 0) for name in ("updatedReplicas", "replicas", "availableReplicas")}
    return numbers == wanted and status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 1)


def _has_moved(before: Obj, status: Obj) -> bool:
    old, fresh = (each.get("replicas", 0) - each.get("updatedReplicas", 0) for each in (before, status))
    names = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return fresh < old or any(status.get(name, 0) > before.get(name, 0) for name in names)


def _is_over(deployment: Obj, condition: Obj, now: datetime) -> bool:
    if condition["reason"] in (COMPLETE, TIMED_OUT):
        return bool(condition["reason"] == TIMED_OUT)
    waited = (now - parse(condition["lastUpdateTime"])).total_seconds()
    return waited > float(deployment["spec"]["progressDeadlineSeconds"])


def next_look(deployment: Obj, status: Obj, now: datetime) -> float | None:
    """Return the seconds after which a roll-out that stands still has to be judged again."""
    condition = condition_of(status, "Progressing")
    if not has_deadline(deployment) or not condition or condition["reason"] == TIMED_OUT:
        return None
    if is_complete(deployment, status):
        return None
    waited = (now - parse(condition["lastUpdateTime"])).total_seconds()
    return float(max(1.0, deployment["spec"]["progressDeadlineSeconds"] - waited + 1.0))


def copy_failure(status: Obj, sets: list[Obj], newest: Obj | None) -> None:
    """Show the failure of a ReplicaSet, of the newest one first."""
    ranked = [*([newest] if newest is not None else []), *sets]
    found = (condition_of(rs.get("status"), "ReplicaFailure") for rs in ranked)
    failure = next(filter(None, found), None)
    old = condition_of(status, "ReplicaFailure")
    if failure is None:
        drop_condition(status, "ReplicaFailure")
    elif (old.get("status"), old.get("reason")) != (failure["status"], failure["reason"]):
        _put(status, {**failure, "lastUpdateTime": failure["lastTransitionTime"]})
