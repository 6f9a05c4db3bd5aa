"""Merging a patch into somebody's object, and giving back the fields that still hold what we put there."""

from __future__ import annotations

import json
import shlex

from faults.engine import fields
from faults.engine.model import MANAGER, Obj, Patch, Record, Target
from faults.engine.ports import ClusterPort
from faults.engine.stuck import kubectl_name
from faults.errors import Conflict, NotFound

ATTEMPTS = 8  # an object that controllers write to changes between our read and our write now and then


def plan(cluster: ClusterPort, index: int, change: Patch) -> Record:
    """Return the record with before- and after-images.

    The after-image is what the cluster makes of the patch (a dry run), because it may write a value in its own way
    ("1000m" becomes "1"), and undoing compares values.
    """
    before = _get(cluster, change.target)
    after = _patch(cluster, change.target, change.patch, before, dry_run=True)
    images = fields.images(change.patch, before, after)
    undo = {"action": "restore", "fields": images}
    return Record(index, change.injector, change.target, undo, uid=before["metadata"]["uid"])


def is_true(cluster: ClusterPort, record: Record) -> bool:
    """Return whether a record of an earlier attempt still tells what the object held before."""
    live = _live(cluster, record)
    return live is not None and (_is_sent(record, live) or _is_current(record, live))


def send(cluster: ClusterPort, change: Patch, record: Record) -> Record:
    """Write the patch, provided that the object still holds the before-images; Conflict otherwise."""
    for _ in range(ATTEMPTS):
        live = _get(cluster, record.target)
        if _is_sent(record, live):  # by a try whose answer was lost, or a worker that died
            return record.applied(live["metadata"]["uid"])
        if not _is_current(record, live):
            break
        try:
            _patch(cluster, change.target, change.patch, live)
        except Conflict:
            continue
        return record.applied(live["metadata"]["uid"])
    raise Conflict(f"{record.target} kept changing while it was to be patched; try again.", retryable=True)


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


def take_back(cluster: ClusterPort, record: Record) -> str:
    """Give back every field that still holds its injected value; return what was found, in words."""
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


def holds(cluster: ClusterPort, record: Record) -> bool:
    """Return whether any field still has its injected value."""
    live = _live(cluster, record)
    return live is not None and bool(fields.restoring(record.undo["fields"], live))


def command(record: Record) -> str:
    """Return the kubectl command that gives back every before-image, whatever is there now."""
    patch = json.dumps(fields.before_images(record.undo["fields"]), ensure_ascii=False)
    return f"kubectl patch {kubectl_name(record.target)} --type=merge -p {shlex.quote(patch)}"


def _live(cluster: ClusterPort, record: Record) -> Obj | None:
    """Return the object that was patched; None where it has gone, or another has its name now."""
    try:
        live = _get(cluster, record.target)
    except NotFound:
        return None
    return live if live["metadata"]["uid"] == record.uid else None


def _get(cluster: ClusterPort, target: Target) -> Obj:
    return cluster.get(target.api_version, target.kind, target.name, target.namespace)


def _patch(cluster: ClusterPort, target: Target, patch: Obj, live: Obj, dry_run: bool = False) -> Obj:
    """Merge a patch into exactly the version that was read."""
    version = {"metadata": {"resourceVersion": live["metadata"]["resourceVersion"]}}
    return cluster.patch(
        target.api_version,
        target.kind,
        target.name,
        target.namespace,
        fields.merge(patch, version),
        field_manager=MANAGER,
        dry_run=dry_run,
    )
