"""The status of a deployment: its numbers, and the conditions that tell how its roll-out goes."""

from __future__ import annotations

from datetime import datetime

from kubesim.controllers.base import find_condition
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
    old = find_condition(status, kind)
    if old is not None and (old["status"], old["reason"]) == (truth, reason):
        return False
    since = old["lastTransitionTime"] if old is not None and old["status"] == truth else stamp(now)
    drop_condition(status, kind)
    times = {"lastUpdateTime": stamp(now), "lastTransitionTime": since}
    fresh = {"type": kind, "status": truth, **times, "reason": reason, "message": message}
    status["conditions"] = [*status.get("conditions", ()), fresh]
    return True


def drop_condition(status: Obj, kind: str) -> None:
    """Take a condition away."""
    conditions = [each for each in status.pop("conditions", None) or () if each["type"] != kind]
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
    old = find_condition(deployment.get("status", {}), "Progressing")
    settled = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    if settled and old is not None and old["reason"] == COMPLETE:
        return
    meta = (newest or deployment)["metadata"]
    what = f'{"ReplicaSet" if newest is not None else "Deployment"} "{meta["name"]}"'
    if is_complete(deployment, status):
        set_condition(status, now, "Progressing", "True", COMPLETE, f"{what} has successfully progressed.")
    elif _has_moved(deployment.get("status", {}), status):
        _note_move(status, old, now, f"{what} is progressing.")
    elif old is not None and _is_over(deployment, old, now):
        set_condition(status, now, "Progressing", "False", TIMED_OUT, f"{what} has timed out progressing.")


def _note_move(status: Obj, old: Obj | None, now: datetime, message: str) -> None:
    drop_condition(status, "Progressing")
    set_condition(status, now, "Progressing", "True", "ReplicaSetUpdated", message)
    if old is not None and old["status"] == "True":
        status["conditions"][-1]["lastTransitionTime"] = old["lastTransitionTime"]


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
    condition = find_condition(status, "Progressing")
    if not has_deadline(deployment) or condition is None or condition["reason"] == TIMED_OUT:
        return None
    if is_complete(deployment, status):
        return None
    waited = (now - parse(condition["lastUpdateTime"])).total_seconds()
    return float(max(1.0, deployment["spec"]["progressDeadlineSeconds"] - waited + 1.0))


def copy_failure(status: Obj, sets: list[Obj], newest: Obj | None) -> None:
    """Show the failure of a ReplicaSet, of the newest one first."""
    ranked = [*([newest] if newest is not None else []), *sets]
    found = (find_condition(rs.get("status", {}), "ReplicaFailure") for rs in ranked)
    failure = next((condition for condition in found if condition is not None), None)
    old = find_condition(status, "ReplicaFailure")
    if failure is None:
        drop_condition(status, "ReplicaFailure")
    elif old is None or (old["status"], old["reason"]) != (failure["status"], failure["reason"]):
        drop_condition(status, "ReplicaFailure")
        shown = {**failure, "lastUpdateTime": failure["lastTransitionTime"]}
        status["conditions"] = [*status.get("conditions", ()), shown]
