"""Patches somebody's object; the undo gives back the fields and list entries that still hold what we put there."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from faults.engine import fields
from faults.engine.model import PatchType, Record, Target
from faults.engine.ports import ClusterPort, Neighbours, Obj
from faults.engine.stuck import kubectl_name
from faults.errors import Conflict, Invalid, NotFound, Unsupported
from faults.injectors.field_owners import WRITER, hand_back_fields
from faults.injectors.kinds import TARGET, Kind, StepError, find, get

ATTEMPTS = 8  # an object that controllers write to changes between our read and our write now and then
_NO_STRATEGIC = "has no strategic merge patch, because it is of a custom kind; use type json or merge"
_OPERATIONS = ("add", "copy", "move", "remove", "replace", "test")
_OPEN_METADATA = ("annotations", "finalizers", "labels", "ownerReferences")


@dataclass(frozen=True, slots=True)
class PatchObject:
    """Patch an object that must be there."""

    target: Target
    patch: Obj | list[Obj]
    injector: str = "patch"
    patch_type: PatchType = "merge"
    action: ClassVar[str] = "restore"


class Patch(Kind[PatchObject]):
    """Patches one object.

    The server shows by a dry run what it makes of the patch; the difference is what is written, and given back.
    """

    name = "patch"
    undo = PatchObject.action
    since = 1
    fields: ClassVar = {
        "target": TARGET,
        "type": {"enum": ["merge", "json", "strategic"]},
        "patch": {"type": ["object", "array"], "minProperties": 1, "minItems": 1, "maxItems": 100},
    }
    required = ("target", "patch")

    def changes(self, spec: Obj) -> Sequence[PatchObject]:
        """Return the one change."""
        patch_type = cast(PatchType, spec.get("type", "merge"))
        return [PatchObject(Target.load(spec["target"]), spec["patch"], patch_type=patch_type)]

    def check(self, spec: Obj) -> None:
        """Refuse patches of the wrong form, and of what nobody's patch may change."""
        patch, kind = spec["patch"], spec.get("type", "merge")
        if isinstance(patch, list) != (kind == "json"):
            form = "a list of operations" if kind == "json" else "an object"
            raise StepError("patch", f"must be {form}, since the type is {kind}")
        if kind == "strategic" and _is_custom(spec["target"]["apiVersion"]):
            raise StepError("type", f"{spec['target']['kind']} {_NO_STRATEGIC}")
        for path in _operation_paths(patch) if isinstance(patch, list) else _paths(patch):
            _refuse_path(path)

    def plan(self, cluster: ClusterPort, index: int, change: PatchObject, neighbours: Neighbours) -> Record:
        """Return the record with before- and after-images.

        The after-image is what the cluster makes of the patch, because it may write a value in its own way ("1000m"
        becomes "1"), undoing compares values, and an index of a list may mean another entry a moment later.
        """
        before, after = _tried(cluster, change)
        undo = {"action": self.undo, "fields": fields.images(before, after)}
        return Record(index, change.injector, change.target, undo, uid=before["metadata"]["uid"])

    def is_true(self, cluster: ClusterPort, record: Record) -> bool:
        """Return whether a record of an earlier attempt still tells what the object held before."""
        live = _live(cluster, record)
        return live is not None and (_is_sent(record, live) or _is_current(record, live))

    def apply(self, cluster: ClusterPort, change: PatchObject, record: Record) -> Record:
        """Write the after-images, provided that the object still holds the before-images; Conflict otherwise.

        Afterwards nothing in the object says when they were written.
        """
        for _ in range(ATTEMPTS):
            live = get(cluster, record.target)
            is_sent = _is_sent(record, live)  # by a try whose answer was lost, or a worker that died
            if not is_sent and not _is_current(record, live):
                break
            try:
                if not is_sent:
                    live = _patch(cluster, record.target, fields.injecting(record.undo["fields"], live), live)
                hand_back_fields(cluster, record.target, live)
            except Conflict:
                continue
            return record.applied(live["metadata"]["uid"])
        raise Conflict(f"{record.target} kept changing while it was to be patched; try again.", retryable=True)

    def revert(self, cluster: ClusterPort, record: Record, neighbours: Neighbours) -> Record:
        """Give back every field that still holds its injected value."""
        record = neighbours.inherit(record)
        return record.reverted(self._take_back(cluster, record))

    def holds(self, cluster: ClusterPort, record: Record) -> bool:
        """Return whether any field still has its injected value."""
        live = _live(cluster, record)
        return live is not None and bool(fields.restoring(record.undo["fields"], live))

    def inherit(self, record: Record, older: Record) -> tuple[Record, Record]:
        """Give back what was there before an older patch of the same fields."""
        if older.undo["action"] != self.undo:
            return record, older
        left, own = fields.hand_on(older.undo["fields"], record.undo["fields"])
        return (
            replace(record, undo={**record.undo, "fields": own}),
            replace(older, undo={**older.undo, "fields": left}),
        )

    def command(self, cluster: ClusterPort, record: Record) -> str:
        """Return the kubectl command that gives back every before-image: of lists, as they are now."""
        images = record.undo["fields"]
        live = _live(cluster, record) if fields.in_lists(images) else None
        patch = fields.before_images(images) if live is None else fields.restoring(images, live)
        text = json.dumps(patch, ensure_ascii=False, sort_keys=True)
        return f"kubectl patch {kubectl_name(record.target)} --type=merge -p {shlex.quote(text)}"

    def _take_back(self, cluster: ClusterPort, record: Record) -> str:
        for _ in range(ATTEMPTS):
            live = _live(cluster, record)
            if live is None:
                return "was gone already"
            patch = fields.restoring(record.undo["fields"], live)
            if not patch:
                return "held other values, left alone"
            try:
                _patch(cluster, record.target, patch, live)
            except NotFound:
                return "was gone already"
            except Conflict:
                continue
            return "restored"
        raise Conflict(f"{record.target} kept changing while it was to be restored; try again.", retryable=True)


def _tried(cluster: ClusterPort, change: PatchObject) -> tuple[Obj, Obj]:
    """Return an object, and what the cluster would make of its patch."""
    for _ in range(ATTEMPTS):
        before = get(cluster, change.target)
        try:
            return before, _patch(cluster, change.target, change.patch, before, change.patch_type, dry_run=True)
        except Unsupported:
            raise Invalid(f"{change.target} {_NO_STRATEGIC}.") from None
        except Conflict:
            continue
    raise Conflict(f"{change.target} kept changing while its patch was tried; try again.", retryable=True)


def _is_sent(record: Record, live: Obj) -> bool:
    """Return whether the object holds injected values already: an earlier attempt wrote them and died.

    One is enough, for somebody may have changed the others since; planning again would take ours for theirs.
    """
    changes = [field for field in record.undo["fields"] if fields.changed(field)]
    is_same = live["metadata"]["uid"] == record.uid
    return is_same and (not changes or any(fields.holds(field, "after", live) for field in changes))


def _is_current(record: Record, live: Obj) -> bool:
    """Return whether the before-images are still what the object holds."""
    return all(fields.holds(field, "before", live) for field in record.undo["fields"])


def _live(cluster: ClusterPort, record: Record) -> Obj | None:
    """Return the object that was patched; None where it has gone, or another has its name now."""
    live = find(cluster, record.target)
    return live if live and live["metadata"]["uid"] == record.uid else None


def _patch(
    cluster: ClusterPort,
    target: Target,
    patch: Obj | list[Obj],
    live: Obj,
    patch_type: PatchType = "merge",
    dry_run: bool = False,
) -> Obj:
    """Patch exactly the version that was read."""
    return cluster.patch(
        target.api_version,
        target.kind,
        target.name,
        target.namespace,
        _with_version(patch, live["metadata"]["resourceVersion"]),
        patch_type=patch_type,
        field_manager=WRITER,
        dry_run=dry_run,
    )


def _with_version(patch: Obj | list[Obj], version: str) -> Obj | list[Obj]:
    if isinstance(patch, list):
        return [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *patch]
    return fields.merge(patch, {"metadata": {"resourceVersion": version}})


def _is_custom(api_version: str) -> bool:
    group, _, _ = api_version.rpartition("/")
    return "." in group and not group.endswith(".k8s.io")


def _paths(patch: Obj) -> list[list[str]]:
    metadata = patch.get("metadata")
    inside = [["metadata", key] for key in metadata] if isinstance(metadata, dict) else []
    return [*([key] for key in patch if key != "metadata" or not inside), *inside]


def _operation_paths(operations: list[Any]) -> list[list[str]]:
    paths = []
    for number, operation in enumerate(operations):
        if not isinstance(operation, dict) or operation.get("op") not in _OPERATIONS:
            raise StepError(f"patch.{number}", f"needs an op, one of: {', '.join(_OPERATIONS)}")
        for key in ("path", *(["from"] if operation["op"] in ("copy", "move") else [])):
            if not str(operation.get(key, "")).startswith("/"):
                raise StepError(f"patch.{number}.{key}", "must be a JSON pointer, such as /spec/replicas")
            paths.append(str(operation[key]).split("/")[1:])
    return paths


def _refuse_path(path: list[str]) -> None:
    """Refuse what belongs to the API server and to controllers: a patch of it has no effect, or no undo."""
    if path[0] in ("apiVersion", "kind", "status"):
        raise StepError("patch", f"cannot change {path[0]}")
    if path[0] == "metadata" and (len(path) < 2 or path[1] not in _OPEN_METADATA):
        allowed = ", ".join(_OPEN_METADATA)
        raise StepError("patch", f"cannot change {'.'.join(path[:2])}; of the metadata it may change: {allowed}")
