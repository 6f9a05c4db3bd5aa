"""What decides how a deployment's ReplicaSets are rolled over: their templates, revisions, sizes and shares."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kubesim.controllers.history import safe_hash
from kubesim.errors import Obj
from kubesim.shares import share

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
