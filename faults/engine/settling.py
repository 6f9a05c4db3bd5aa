"""Waiting, after a revert, until the cluster has really let go of what was deleted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress

from faults.engine.actions import Actions
from faults.engine.fingerprint import orphans
from faults.engine.model import Record, State, Target
from faults.engine.ports import ClusterPort, NoNeighbours, Obj
from faults.engine.stuck import Stuck, obstacles, obstructing
from faults.errors import ClusterError, Conflict, NotFound

POLL_S, MAX_POLL_S = 0.05, 0.25
"""Until the next look, which comes later each time: a pod that was hurried along takes a second."""
SLOWER = 1.5
PATIENCE_S = 60.0


def settle(
    cluster: ClusterPort,
    records: Sequence[Record],
    actions: Actions,
    *,
    wait: Callable[[float], None],
    guard: Callable[[], None],
    patience_s: float = PATIENCE_S,
) -> list[str]:
    """Return [] when every deleted object and its dependents have gone; after ``patience_s``, what has not.

    Pods are hurried along. An object that nothing is deleting is deleted again: the cluster may have come back from a
    snapshot meanwhile. ``guard`` is called between looks to keep the lease.
    """
    deleted = _deleted(records, actions)
    hurried: set[str] = set()
    waited, pause = 0.0, POLL_S
    there = _there(cluster, deleted, actions)
    while left := [str(record.target) for record in there] or _left_pods(cluster, deleted):
        if waited >= patience_s:
            return left
        _hurry(cluster, deleted, hurried)
        guard()
        wait(pause)
        waited += pause
        pause = min(pause * SLOWER, MAX_POLL_S)
        # What was there at the last look is asked for first; all else only once that has gone.
        there = _there(cluster, there, actions) or _there(cluster, deleted, actions)
    return []


def held(cluster: ClusterPort, records: Sequence[Record], actions: Actions) -> list[Stuck]:
    """Return what keeps the deleted objects from going, each with the command that helps."""
    found = [stuck for record in _deleted(records, actions) for stuck in _obstacles(cluster, record)]
    return list(dict.fromkeys(found))


def strip_finalizers(
    cluster: ClusterPort, records: Sequence[Record], actions: Actions, namespaces: Collection[str]
) -> list[str]:
    """Take the finalizers from what keeps deleted objects from going, in namespaces of the session's own only.

    All in these is the session's, and nobody waits for it. Return a line for each. Raises ClusterError.
    """
    deleted = _deleted(records, actions)
    blocking = [obj for record in deleted for obj in obstructing(cluster, record.target, record.uid)]
    lines = []
    for obj in [*blocking, *_dependents(cluster, deleted)]:
        meta = obj["metadata"]
        if meta.get("namespace") in namespaces and meta.get("finalizers"):
            _strip(cluster, obj)
            lines.append(f"Taking the finalizer {', '.join(meta['finalizers'])} from {Target.of(obj)}")
    return list(dict.fromkeys(lines))


def _strip(cluster: ClusterPort, obj: Obj) -> None:
    target, uid = Target.of(obj), obj["metadata"]["uid"]
    patch = {"metadata": {"uid": uid, "finalizers": None}}
    with suppress(NotFound, Conflict):  # gone, or made anew by somebody else
        cluster.patch(target.api_version, target.kind, target.name, target.namespace, patch)


def _deleted(records: Sequence[Record], actions: Actions) -> list[Record]:
    """Return the steps that have been taken back by deleting their objects."""
    reverted = [record for record in records if record.state is State.REVERTED]
    return [record for record in reverted if actions[record.undo["action"]].has_deleted(record)]


def _obstacles(cluster: ClusterPort, record: Record) -> Iterator[Stuck]:
    yield from obstacles(cluster, record.target, record.uid)
    for obj in _dependents(cluster, [record]):
        yield from obstacles(cluster, Target.of(obj), obj["metadata"]["uid"])


def _there(cluster: ClusterPort, deleted: Sequence[Record], actions: Actions) -> list[Record]:
    return [record for record in deleted if _is_there(cluster, record, actions)]


def _left_pods(cluster: ClusterPort, deleted: Sequence[Record]) -> list[str]:
    return [f"Pod {pod['metadata']['name']}" for pod in _dependents(cluster, deleted)]


def _is_there(cluster: ClusterPort, record: Record, actions: Actions) -> bool:
    target = record.target
    try:
        live = cluster.get(target.api_version, target.kind, target.name, target.namespace)
    except NotFound:
        return False
    if live["metadata"]["uid"] != record.uid:
        return False
    if not live["metadata"].get("deletionTimestamp"):
        actions[record.undo["action"]].revert(cluster, record, NoNeighbours())
    return True


def _dependents(cluster: ClusterPort, deleted: Sequence[Record]) -> list[Obj]:
    workloads = [record for record in deleted if record.target.api_version in ("batch/v1", "apps/v1")]
    namespaces = sorted({record.target.namespace for record in workloads})
    return [obj for namespace in namespaces for obj in orphans(cluster, namespace)]


def _hurry(cluster: ClusterPort, deleted: Sequence[Record], hurried: set[str]) -> None:
    """Ask once for each pod that is in the way to end within a second: nobody waits for its grace period."""
    namespaces = [record.target.name for record in deleted if record.target.kind == "Namespace"]
    pods = [pod for namespace in namespaces for pod in cluster.list("v1", "Pod", namespace)]
    pods += [obj for obj in _dependents(cluster, deleted) if obj["kind"] == "Pod"]
    for meta in (pod["metadata"] for pod in pods if pod["metadata"]["uid"] not in hurried):
        hurried.add(meta["uid"])
        try:
            cluster.delete("v1", "Pod", meta["name"], meta["namespace"], uid=meta["uid"], grace_seconds=1)
        except ClusterError:  # gone, or replaced: either is what we want; the next look decides
            continue
