"""The roll-out of a deployment: the templates, revisions, sizes and shares of its ReplicaSets, and its status."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime

from kubesim.conditions import condition_of, renewed, without
from kubesim.controllers.owned import safe_hash
from kubesim.errors import Obj
from kubesim.shares import share
from kubesim.times import parse, stamp

PREFIX = "deployment.kubernetes.io/"
REVISION = PREFIX + "revision"
HISTORY = PREFIX + "revision-history"
DESIRED = PREFIX + "desired-replicas"
MAXIMUM = PREFIX + "max-replicas"
NOT_COPIED = (
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MAXIMUM,
    "deprecated.deployment.rollback.to",
)
"""Annotations that a ReplicaSet does not take over from its deployment."""
HASH = "pod-template-hash"
LONGEST_HISTORY = 2000
NO_DEADLINE = 2**31 - 1
COMPLETE, TIMED_OUT, PAUSED = "NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"
COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")


def annotations_of(obj: Obj) -> dict[str, str]:
    """Return the annotations."""
    return obj["metadata"].get("annotations") or {}


def revision_of(rs: Obj) -> int:
    """Return the revision annotation as a number; 0 without one that is a number."""
    value = annotations_of(rs).get(REVISION, "0")
    return int(value) if value.isdecimal() else 0


def by_age(rs: Obj) -> tuple[str, str]:
    """Sort key: oldest first."""
    return rs["metadata"]["creationTimestamp"], rs["metadata"]["name"]


def active(sets: list[Obj]) -> list[Obj]:
    """Return those that want pods."""
    return [rs for rs in sets if rs["spec"]["replicas"] > 0]


def total(sets: list[Obj]) -> int:
    """Return how many pods ReplicaSets want."""
    return sum(int(rs["spec"]["replicas"]) for rs in sets)


def counted(sets: list[Obj], name: str) -> int:
    """Return the sum of one number of the status."""
    return sum(int(rs.get("status", {}).get(name, 0)) for rs in sets)


def replicas_of(deployment: Obj) -> int:
    """Return how many pods a deployment wants."""
    return int(deployment["spec"]["replicas"])


def is_rolling(deployment: Obj) -> bool:
    """Whether old pods make way bit by bit."""
    return bool(deployment["spec"]["strategy"]["type"] == "RollingUpdate")


def bounds(deployment: Obj) -> tuple[int, int]:
    """Return (maxSurge, maxUnavailable) in pods; if both round to nothing, one may be unavailable."""
    if not is_rolling(deployment):
        return 0, 0
    replicas, rolling = replicas_of(deployment), deployment["spec"]["strategy"].get("rollingUpdate") or {}
    surge = share(rolling.get("maxSurge", 0), replicas)
    unavailable = share(rolling.get("maxUnavailable", 0), replicas, math.floor)
    if not surge and not unavailable:
        unavailable = 1
    return surge, min(unavailable, replicas)


def largest(deployment: Obj) -> int:
    """Return how many pods there may be in all."""
    return replicas_of(deployment) + bounds(deployment)[0]


def size_notes(deployment: Obj) -> dict[str, str]:
    """Return the annotations that tell for which size of the deployment a ReplicaSet was scaled."""
    return {DESIRED: str(replicas_of(deployment)), MAXIMUM: str(largest(deployment))}


def was_resized(deployment: Obj, rs: Obj) -> bool:
    """Whether the deployment's size has changed since a ReplicaSet was scaled."""
    value = annotations_of(rs).get(DESIRED, "")
    return value.isdecimal() and int(value) != replicas_of(deployment)


def newest_size(deployment: Obj, sets: list[Obj], current: int) -> int:
    """Return the size to which the newest ReplicaSet may grow from ``current``, beside all others."""
    if not is_rolling(deployment):
        return replicas_of(deployment)
    room = largest(deployment) - total(sets)
    return current if room <= 0 else current + min(room, replicas_of(deployment) - current)


def proportional_sizes(deployment: Obj, sets: list[Obj]) -> Iterator[tuple[Obj, int]]:
    """Yield the sizes after a change of the deployment's size in mid roll-out, the largest first: each its share."""
    to_add = (largest(deployment) if replicas_of(deployment) > 0 else 0) - total(sets)
    ranked = sorted(sets, key=by_age, reverse=to_add > 0)
    ranked.sort(key=lambda rs: -rs["spec"]["replicas"])
    sizes, added = [], 0
    for rs in ranked:
        part = _fraction(deployment, rs) if to_add else 0
        part = min(part, to_add - added) if to_add > 0 else max(part, to_add - added)
        sizes.append(rs["spec"]["replicas"] + part)
        added += part
    if ranked and to_add:
        sizes[0] = max(0, sizes[0] + to_add - added)
    return zip(ranked, sizes, strict=True)


def _fraction(deployment: Obj, rs: Obj) -> int:
    """Return by how much a ReplicaSet changes so that its share of the deployment stays the same."""
    size = int(rs["spec"]["replicas"])
    if not replicas_of(deployment):
        return -size
    before = annotations_of(rs).get(MAXIMUM, "")
    base = int(before) if before.isdecimal() else 0
    base = base or deployment.get("status", {}).get("replicas", 0)
    return math.floor(size * largest(deployment) / base + 0.5) - size if base else 0


def same_template(one: Obj, other: Obj) -> bool:
    """Whether two pod templates are equal but for the hash label."""
    return _bare(one) == _bare(other)


def _bare(template: Obj) -> Obj:
    meta = template.get("metadata") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != HASH}
    kept = {key: value for key, value in meta.items() if key != "creationTimestamp" and value}
    return {**template, "metadata": {**kept, "labels": labels}}


def template_hash(template: Obj, collisions: int = 0) -> str:
    """Return a name part for a pod template, in the letters that upstream uses."""
    return safe_hash([_bare(template), collisions])


def newest_notes(deployment: Obj, rs: Obj, revision: int) -> dict[str, str]:
    """Return the annotations of the newest ReplicaSet: its deployment's, the revision, and those it had before."""
    notes = dict(annotations_of(rs))
    notes |= {name: value for name, value in annotations_of(deployment).items() if name not in NOT_COPIED}
    old = notes.get(REVISION, "")
    if old and not old.isdecimal():
        return notes
    if int(old or 0) < revision:
        notes[REVISION] = str(revision)
        if old:
            notes[HISTORY] = _longer(notes.get(HISTORY, ""), old)
    return notes


def _longer(history: str, revision: str) -> str:
    """Add a revision, dropping the oldest ones where the text would become too long."""
    past = [*filter(None, history.split(",")), revision]
    while len(",".join(past)) > LONGEST_HISTORY:
        del past[0]
    return ",".join(past)


def has_deadline(deployment: Obj) -> bool:
    """Tell whether the roll-out's progress is watched."""
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
    """Tell whether all pods are of the newest template and available, and no other is left."""
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
