"""Creating an object so that nobody can tell it from a tenant's, and taking exactly that object away again."""

from __future__ import annotations

import json
from dataclasses import replace

from faults.engine.model import LAST_APPLIED, MANAGER, Create, Obj, Record, Target
from faults.engine.ports import ClusterPort
from faults.engine.stuck import kubectl_name
from faults.errors import AlreadyExists, Conflict, NotFound

LEFT = "replaced by somebody else's, left alone"
KEPT = "kept for another run that has the same object"


def plan(index: int, change: Create) -> Record:
    """Return the record whose undo is to delete this very object."""
    return Record(
        index, change.injector, change.target, {"action": "delete", "applied": _last_applied(change.object)}
    )


def send(cluster: ClusterPort, change: Create, record: Record) -> Record:
    """Create the object, or take it for ours where an earlier attempt that died has created it."""
    try:
        made = cluster.create(_as_applied(change.object), field_manager=MANAGER)
    except AlreadyExists:
        made = _get(cluster, record.target)
        if not _ours(made, record):
            raise Conflict(
                f"{record.target} is there already and is not ours; delete it or use another name."
            ) from None
    return record.applied(made["metadata"]["uid"])


def identified(cluster: ClusterPort, record: Record) -> Record:
    """Return the record with the UID of what a write created whose answer was never recorded, if there is any."""
    if record.uid:
        return record
    try:
        live = _get(cluster, record.target)
    except NotFound:
        return record
    return replace(record, uid=live["metadata"]["uid"]) if _ours(live, record) else record


def take_back(cluster: ClusterPort, record: Record) -> str:
    """Delete the object if it is still the one we made; return what was found, in words."""
    if not record.uid:
        return "was not there"
    target = record.target
    try:
        cluster.delete(target.api_version, target.kind, target.name, target.namespace, uid=record.uid)
    except NotFound:
        return "was gone already"
    except Conflict:  # another object; or ours, and the cluster is at it already
        return "deleted" if holds(cluster, record) else LEFT
    return "deleted"


def holds(cluster: ClusterPort, record: Record) -> bool:
    """Return whether the object that we made is still there."""
    try:
        live = _get(cluster, record.target)
    except NotFound:
        return False
    return bool(live["metadata"]["uid"] == record.uid) if record.uid else _ours(live, record)


def command(record: Record) -> str:
    """Return the kubectl command that deletes the object."""
    return f"kubectl delete {kubectl_name(record.target)}"


def _get(cluster: ClusterPort, target: Target) -> Obj:
    return cluster.get(target.api_version, target.kind, target.name, target.namespace)


def _ours(live: Obj, record: Record) -> bool:
    annotations = live["metadata"].get("annotations") or {}
    return bool(annotations.get(LAST_APPLIED) == record.undo["applied"])


def _last_applied(obj: Obj) -> str:
    """Return the annotation as kubectl writes it: compact JSON, sorted keys, a newline at the end."""
    meta = {"annotations": {}, **obj["metadata"]}
    return json.dumps({**obj, "metadata": meta}, separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"


def _as_applied(obj: Obj) -> Obj:
    meta = obj["metadata"]
    annotations = {**meta.get("annotations", {}), LAST_APPLIED: _last_applied(obj)}
    return {**obj, "metadata": {**meta, "annotations": annotations}}
