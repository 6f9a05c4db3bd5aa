"""Creates objects so that nobody can tell them from a tenant's; the undo deletes exactly these objects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from faults.engine.actions import Change
from faults.engine.model import KEPT, LAST_APPLIED, MANAGER, Record, Target
from faults.engine.ports import ClusterPort, Neighbours, Obj
from faults.engine.stuck import kubectl_name
from faults.errors import AlreadyExists, Conflict, NotFound
from faults.injectors.kinds import NO_NAMESPACES, Kind, StepError, find, get

LEFT = "replaced by somebody else's, left alone"


@dataclass(frozen=True, slots=True)
class Create:
    """Create this object; it must not be there."""

    object: Obj
    injector: str = "manifest"
    action: ClassVar[str] = "delete"

    @property
    def target(self) -> Target:
        """Address of the object to be."""
        return Target.of(self.object)


class Manifest(Kind[Create]):
    """Creates the objects of a file."""

    name = "manifest"
    undo = Create.action
    since = 1
    fields: ClassVar = {"file": {"type": "string", "pattern": "^(manifests|solutions)/[a-z0-9-]+\\.yaml$"}}
    required: ClassVar[Sequence[str]] = ("file",)
    looks = False
    deletes = True
    verb = "Creating"

    def changes(self, spec: Obj) -> Sequence[Change]:
        """Return one creation for each object of the file."""
        return [Create(obj) for obj in spec["objects"]]

    def check(self, spec: Obj) -> None:
        """Refuse namespaces: a session makes its own, and owns no other."""
        if any(change.target.kind == "Namespace" for change in self.changes(spec)):
            raise StepError("file", NO_NAMESPACES)

    def plan(self, cluster: ClusterPort, index: int, change: Create, neighbours: Neighbours) -> Record:
        """Return the record whose undo is to delete this very object."""
        return self.record(index, change)

    def record(self, index: int, change: Create) -> Record:
        """Return the same without any cluster."""
        applied = _last_applied(change.object)
        return Record(index, change.injector, change.target, {"action": self.undo, "applied": applied})

    def apply(self, cluster: ClusterPort, change: Create, record: Record) -> Record:
        """Create the object, or take it for ours where an earlier attempt that died has created it."""
        try:
            made = cluster.create(_as_applied(change.object), field_manager=MANAGER)
        except AlreadyExists:
            made = get(cluster, record.target)
            if not _is_ours(made, record):
                raise Conflict(
                    f"{record.target} is there already and is not ours; delete it or use another name."
                ) from None
        return record.applied(made["metadata"]["uid"])

    def revert(self, cluster: ClusterPort, record: Record, neighbours: Neighbours) -> Record:
        """Delete the object if it is still the one we made, and no other run needs it."""
        record = self.identified(cluster, record)
        if record.uid and neighbours.have(record):
            return record.reverted(KEPT)
        outcome = self.take_back(cluster, record)
        if record.uid and outcome != _DELETED:  # another run's step may have deleted it, and would restore it
            record = neighbours.inherit(record)
        return record.reverted(outcome)

    def identified(self, cluster: ClusterPort, record: Record) -> Record:
        """Return the record with the UID of what a write created whose answer was never recorded, if there is any."""
        live = None if record.uid else find(cluster, record.target)
        return replace(record, uid=live["metadata"]["uid"]) if live and _is_ours(live, record) else record

    def take_back(self, cluster: ClusterPort, record: Record) -> str:
        """Delete the object if it is still the one we made; return what was found, in words."""
        if not record.uid:
            return "was not there"
        target = record.target
        try:
            cluster.delete(target.api_version, target.kind, target.name, target.namespace, uid=record.uid)
        except NotFound:
            return _GONE
        except Conflict:  # another object; or ours, and the cluster is at it already
            return _DELETED if self.holds(cluster, record) else LEFT
        return _DELETED

    def holds(self, cluster: ClusterPort, record: Record) -> bool:
        """Return whether the object that we made is still there."""
        live = find(cluster, record.target)
        if live is None:
            return False
        return bool(live["metadata"]["uid"] == record.uid) if record.uid else _is_ours(live, record)

    def has_deleted(self, record: Record) -> bool:
        """Return whether the object was ours to the end."""
        return bool(record.uid) and record.outcome not in (LEFT, KEPT)

    def command(self, cluster: ClusterPort, record: Record) -> str:
        """Return the kubectl command that deletes the object."""
        return f"kubectl delete {kubectl_name(record.target)}"


_DELETED = "deleted"
_GONE = "was gone already"


def _is_ours(live: Obj, record: Record) -> bool:
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
