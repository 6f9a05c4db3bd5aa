"""Deletes somebody's object; the undo creates it again as it was, and what refers to its UID follows the new one."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from faults.engine import fields
from faults.engine.model import MANAGER, Record, State, Target
from faults.engine.ports import ClusterPort, Neighbours, Obj
from faults.errors import AlreadyExists, Conflict, Invalid, NotFound
from faults.injectors.kinds import NO_NAMESPACES, TARGET, Kind, StepError, find, get

MAX_OBJECT_BYTES = 128 * 1024
ATTEMPTS = 8  # between our read and our write others may write, too
KEPT_BACK = {
    "CustomResourceDefinition": "all objects of the kind would go with it",
    "Namespace": NO_NAMESPACES,
    "PersistentVolume": "its data could not be restored",
    "PersistentVolumeClaim": "its data could not be restored",
    "Secret": "its content would be written into the journal",
}
"""Kinds that no undo brings back, and why."""
ADOPTING = ("DaemonSet", "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
"""Kinds that find their dependents again by a selector."""
_REVISION = "deployment.kubernetes.io/revision"  # a count of its controller's
_DELETING = ("foregroundDeletion", "orphan")  # finalizers of a deletion that is under way
_JOB_LABELS = tuple(
    prefix + name for prefix in ("", "batch.kubernetes.io/") for name in ("controller-uid", "job-name")
)
_SUBJECT_TO_STATUS = ("Node",)  # kinds whose status nobody but their creator writes as a whole


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete an object that must be there; its dependents go as well (``background``) or stay (``orphan``)."""

    target: Target
    dependents: str = "background"
    injector: str = "delete"
    action: ClassVar[str] = "recreate"


class Delete(Kind[DeleteObject]):
    """Deletes one object."""

    name = "delete"
    undo = DeleteObject.action
    fields: ClassVar = {"target": TARGET, "dependents": {"enum": ["background", "orphan"]}}
    required = ("target",)
    verb = "Deleting"

    def changes(self, spec: Obj) -> Sequence[DeleteObject]:
        """Return the one change."""
        return [DeleteObject(Target.load(spec["target"]), spec.get("dependents", "background"))]

    def check(self, spec: Obj) -> None:
        """Refuse what could not be restored."""
        kind = spec["target"]["kind"]
        if kind in KEPT_BACK:
            raise StepError("target.kind", f"{kind} cannot be deleted: {KEPT_BACK[kind]}")
        if spec.get("dependents") == "orphan" and kind not in ADOPTING:
            raise StepError("dependents", f"orphan is for kinds that adopt theirs again: {', '.join(ADOPTING)}")

    def plan(self, cluster: ClusterPort, index: int, change: DeleteObject, neighbours: Neighbours) -> Record:
        """Return the record with the whole object, without what the server writes."""
        live = get(cluster, change.target)
        if live["metadata"].get("deletionTimestamp"):
            raise Conflict(f"{change.target} is being deleted by somebody else; try again.", retryable=True)
        for owner in live["metadata"].get("ownerReferences") or []:
            if owner.get("controller"):
                maker = f"{owner['kind']} {owner['name']}"
                raise Invalid(f"{change.target} would be made anew by {maker}; delete that instead.")
        undo = {"action": self.undo, "object": _as_it_was(live), "dependents": change.dependents}
        if len(json.dumps(undo)) > MAX_OBJECT_BYTES:  # the journal's copy is a Secret, which has room for 1 MiB
            raise Invalid(
                f"{change.target} is larger than {MAX_OBJECT_BYTES // 1024} KiB: the journal cannot keep it."
            )
        return Record(index, change.injector, change.target, undo, uid=live["metadata"]["uid"])

    def is_true(self, cluster: ClusterPort, record: Record) -> bool:
        """Return whether the object is still as it was written down, or was deleted by the earlier attempt."""
        live = find(cluster, record.target)
        return live is None or (live["metadata"]["uid"] == record.uid and _is_leaving_or_same(live, record))

    def apply(self, cluster: ClusterPort, change: DeleteObject, record: Record) -> Record:
        """Delete the object, provided that it is as it was written down; Conflict otherwise."""
        for _ in range(ATTEMPTS):
            live = find(cluster, record.target)
            if live is None or live["metadata"].get("deletionTimestamp"):
                return record.applied(record.uid)
            if live["metadata"]["uid"] != record.uid or not _is_leaving_or_same(live, record):
                break
            try:
                _delete(cluster, record, live["metadata"]["resourceVersion"])
            except NotFound:
                return record.applied(record.uid)
            except Conflict:
                continue
            return record.applied(record.uid)
        raise Conflict(f"{record.target} kept changing while it was to be deleted; try again.", retryable=True)

    def revert(self, cluster: ClusterPort, record: Record, neighbours: Neighbours) -> Record:
        """Create the object again, unless somebody has; whoever did keeps theirs."""
        for _ in range(ATTEMPTS):
            live = find(cluster, record.target)
            if live is not None:
                return _found(record, live)
            try:
                return _recreated(cluster, record)
            except AlreadyExists:
                continue
        raise Conflict(f"{record.target} comes and goes while it is to be restored; try again.", retryable=True)

    def holds(self, cluster: ClusterPort, record: Record) -> bool:
        """Return whether the object is missing, and could be there."""
        live = find(cluster, record.target)
        if live is not None:
            return record.state is not State.REVERTED and bool(live["metadata"].get("deletionTimestamp"))
        return bool(record.undo["object"]) and _has_place(cluster, record) and _owners(cluster, record) is not None

    def inherit(self, record: Record, older: Record) -> tuple[Record, Record]:
        """Restore the object without the values of another run's patch, and not at all where that run made it."""
        obj = record.undo["object"]
        if older.undo["action"] == "delete":
            obj = None
        if older.undo["action"] == "restore" and obj:
            obj = fields.moved(older.undo["fields"], obj, "after", "before")
        return replace(record, undo={**record.undo, "object": obj}), older

    def follow(self, record: Record, target: Target, old: str, new: str) -> Record:
        """Let the object's owner references follow an owner that was made anew."""
        record = super().follow(record, target, old, new)
        if not record.undo["object"]:
            return record
        meta = record.undo["object"]["metadata"]
        owners = [{**o, "uid": new} if o["uid"] == old else o for o in meta.get("ownerReferences") or []]
        if owners == (meta.get("ownerReferences") or []):
            return record
        obj = {**record.undo["object"], "metadata": {**meta, "ownerReferences": owners}}
        return replace(record, undo={**record.undo, "object": obj})

    def command(self, cluster: ClusterPort, record: Record) -> str:
        """Return the kubectl command that creates the object."""
        text = json.dumps(record.undo["object"], ensure_ascii=False, sort_keys=True)
        return f"echo {shlex.quote(text)} | kubectl create -f -"


def _delete(cluster: ClusterPort, record: Record, version: str) -> None:
    target, orphan = record.target, record.undo["dependents"] == "orphan"
    cluster.delete(
        target.api_version,
        target.kind,
        target.name,
        target.namespace,
        uid=record.uid,
        version=version,
        propagation="Orphan" if orphan else "Background",
    )


def _found(record: Record, live: Obj) -> Record:
    """Return the record for an object that is there: the old one, one of an earlier attempt, or somebody's."""
    uid = live["metadata"]["uid"]
    if live["metadata"].get("deletionTimestamp"):
        raise Conflict(f"{record.target} is still being deleted; it is restored after that.", retryable=True)
    if uid == record.uid:
        return record.reverted("is there")
    if record.undo["object"] and _includes(live, record.undo["object"]):
        return replace(record, uid=uid).reverted("restored")
    return record.reverted("made anew by somebody, left alone")


def _recreated(cluster: ClusterPort, record: Record) -> Record:
    obj = record.undo["object"]
    if not obj:
        return record.reverted("has gone with the run that made it")
    owners = _owners(cluster, record)
    if owners is None:
        return record.reverted("has gone with its owner")
    if owners:
        obj = {**obj, "metadata": {**obj["metadata"], "ownerReferences": owners}}
    try:
        made = cluster.create(obj, field_manager=MANAGER)
    except NotFound:
        if _has_place(cluster, record):
            raise
        return record.reverted("has gone with its namespace")
    return replace(record, uid=made["metadata"]["uid"]).reverted("restored")


def _has_place(cluster: ClusterPort, record: Record) -> bool:
    namespace = record.target.namespace
    return not namespace or find(cluster, Target("v1", "Namespace", "", namespace)) is not None


def _owners(cluster: ClusterPort, record: Record) -> list[Obj] | None:
    """Return the owner references that still have an owner; None where all had one and none has now.

    The garbage collector would have taken the object along, and would do so again.
    """
    references = record.undo["object"]["metadata"].get("ownerReferences") or []
    alive = [entry for entry in references if _is_alive(cluster, entry, record.target.namespace)]
    return None if references and not alive else alive


def _is_alive(cluster: ClusterPort, reference: Obj, namespace: str) -> bool:
    live = find(cluster, Target(reference["apiVersion"], reference["kind"], namespace, reference["name"]))
    return live is not None and bool(live["metadata"]["uid"] == reference["uid"])


def _as_it_was(live: Obj) -> Obj:
    """Return the object in the form in which the API server takes it as a new one."""
    obj = fields.without_server_fields(live)
    left = [name for name in obj["metadata"].get("finalizers") or [] if name not in _DELETING]
    notes = {key: value for key, value in (obj["metadata"].get("annotations") or {}).items() if key != _REVISION}
    obj["metadata"] = _replaced(obj["metadata"], finalizers=left, annotations=notes)
    if obj["kind"] in _SUBJECT_TO_STATUS and "status" in live:
        obj["status"] = live["status"]
    return _without_generated_selector(obj) if obj["kind"] == "Job" else obj


def _without_generated_selector(job: Obj) -> Obj:
    """Return a Job without the selector and labels that the API server makes from its UID."""
    if job["spec"].get("manualSelector"):
        return job
    spec = {key: value for key, value in job["spec"].items() if key != "selector"}
    template = dict(spec["template"])
    template["metadata"] = _without_labels(template.get("metadata") or {})
    return {**job, "metadata": _without_labels(job["metadata"]), "spec": {**spec, "template": template}}


def _without_labels(metadata: Obj) -> Obj:
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key not in _JOB_LABELS}
    return _replaced(metadata, labels=labels)


def _replaced(metadata: Obj, **values: Any) -> Obj:
    """Return metadata with other values for some keys, without those that are left empty."""
    return {key: value for key, value in (metadata | values).items() if key not in values or value}


def _is_leaving_or_same(live: Obj, record: Record) -> bool:
    if live["metadata"].get("deletionTimestamp"):
        return True
    then = record.undo["object"]
    return bool(then) and fields.without_server_fields(_as_it_was(live)) == fields.without_server_fields(then)


def _includes(value: Any, part: Any) -> bool:
    """Return whether a value has everything that a part of it says; a status has changed in any case."""
    if isinstance(value, dict) and isinstance(part, dict):
        return all(key == "status" or (key in value and _includes(value[key], part[key])) for key in part)
    if isinstance(value, list) and isinstance(part, list) and len(value) == len(part):
        return all(_includes(entry, wanted) for entry, wanted in zip(value, part, strict=True))
    return bool(value == part)
