"""Applies a pack's Terraform code; the undo deletes what it has made, and brings the cloud back to what it was.

Terraform itself is not asked to destroy anything: a candidate may have broken the code, or lost the state. So what
it may make is named by the pack, was not there before, and is deleted by name; and of the cloud there is a picture.

Where another run of the cluster has the same state, this one goes on with its code: it lays its changes over what is
there, and applies them. What both have named goes with whichever is taken back last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from faults.engine.model import KEPT, Record, State, Target
from faults.engine.ports import ClusterPort, Neighbours, Obj
from faults.engine.stuck import kubectl_name
from faults.errors import AlreadyExists, Conflict, Invalid, NotFound, Unreachable
from faults.injectors import cloud_changes, terraform_code, terraform_runs
from faults.injectors.kinds import Kind, find
from faults.terraform_state import secret_name
from faults.toolbox_place import NAMESPACE, TERRAFORM_ACCOUNT

_RBAC = "rbac.authorization.k8s.io/v1"
_SECRET = ("v1", "Secret")
_DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Reserve:
    """An object that the code may make: it must not be there before but for another run's, and goes at the end."""

    target: Target
    injector: str = "terraform"
    action: ClassVar[str] = "unapply"


@dataclass(frozen=True, slots=True)
class Apply:
    """Bring the code into the toolbox, and apply the roots in order.

    ``changes`` are all that is brought where another run has brought its code before, by the paths in ``code``.
    """

    state: str
    roots: tuple[str, ...]
    code: Mapping[str, str] = field(repr=False)
    imports: Mapping[str, Mapping[str, str]]
    cloud_roles: tuple[str, ...] = ()
    changes: Mapping[str, str] = field(default_factory=dict, repr=False)
    injector: str = "terraform"
    action: ClassVar[str] = "unapply"

    @property
    def target(self) -> Target:
        """The Secret that will hold the first root's state."""
        return Target("v1", "Secret", self.state, secret_name(self.roots[0]))


class Terraform(Kind[Reserve | Apply]):
    """Applies the roots of the pack's workspace."""

    name = "terraform"
    undo = Reserve.action
    fields: ClassVar = {
        "roots": {
            "type": "array",
            "minItems": 1,
            "maxItems": 4,
            "uniqueItems": True,
            "items": {"type": "string", "pattern": "^[a-z0-9-]{1,60}$"},
        },
        "imports": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "maxProperties": 40,
                "additionalProperties": {"type": "string", "minLength": 1, "maxLength": 300},
            },
        },
    }
    required = ("roots",)
    deletes = True
    verb = "Applying"

    def changes(self, spec: Obj) -> Sequence[Reserve | Apply]:
        """Return a reservation of each object that may be made, and the change that makes them."""
        workspace = spec["workspace"]
        spaces = [Target("v1", "Namespace", "", name) for name in workspace.get("namespaces", ())]
        others = [_target(entry, workspace["state"]) for entry in workspace.get("objects", ())]
        apply = Apply(
            workspace["state"],
            tuple(spec["roots"]),
            spec["code"],
            spec.get("imports", {}),
            tuple(workspace.get("cloud-roles", ())),
            spec.get("changes", {}),
        )
        return [*(Reserve(target) for target in (*spaces, *others)), apply]

    def plan(self, cluster: ClusterPort, index: int, change: Reserve | Apply, neighbours: Neighbours) -> Record:
        """Return the record: that nothing is there, or what the cloud or the code to be changed is like."""
        record = Record(index, change.injector, change.target, {"action": self.undo})
        others = neighbours.have(record)
        if isinstance(change, Apply):
            builds_on = others and bool(terraform_runs.states(cluster, change.state, change.roots))
            return replace(record, undo=record.undo | _before(cluster, change, builds_on=builds_on))
        if find(cluster, change.target) is not None and not others:
            raise AlreadyExists(f"{change.target} is there already; the scenario's Terraform code makes it.")
        return record

    def apply(self, cluster: ClusterPort, change: Reserve | Apply, record: Record) -> Record:
        """Apply the code, which finds by itself what an earlier attempt has made; a reservation changes nothing."""
        if isinstance(change, Apply):
            (_apply_changes if "before" in record.undo else _apply_whole)(cluster, change, record)
            made = terraform_runs.versions(cluster, change.state, change.roots)
            record = replace(record, undo=record.undo | {"made": made})
        return record.applied("")

    def revert(self, cluster: ClusterPort, record: Record, neighbours: Neighbours) -> Record:
        """Delete what was made under a reserved name, whoever made it; or state and changes of the cloud.

        What another run has named, too, stays until that is taken back.
        """
        if _is_application(record):
            stays = "before" in record.undo and neighbours.have(record)
            return record.reverted(_restore_code(cluster, record) if stays else _forget(cluster, record))
        if neighbours.have(record):
            return record.reverted(KEPT)
        live = find(cluster, record.target)
        if live is None:
            return record.reverted(record.outcome or "was not there")
        target, uid = record.target, live["metadata"]["uid"]
        try:
            cluster.delete(target.api_version, target.kind, target.name, target.namespace, uid=uid)
        except NotFound:
            return record.reverted("was gone already")
        except Conflict:  # the cluster is at it already, or somebody has made it anew: the next look tells
            pass
        return replace(record.reverted(_DELETED), uid=uid)

    def holds(self, cluster: ClusterPort, record: Record) -> bool:
        """Return whether anything of it is in the cluster, or in the cloud around it."""
        if not _is_application(record):
            return find(cluster, record.target) is not None
        roots = record.undo["roots"]
        return bool(terraform_runs.states(cluster, record.target.namespace, roots) or _changed(cluster, record))

    def has_deleted(self, record: Record) -> bool:
        """Return whether an object was deleted."""
        return bool(record.uid)

    def command(self, cluster: ClusterPort, record: Record) -> str:
        """Return the kubectl command that deletes the object, or the states."""
        if not _is_application(record):
            return f"kubectl delete {kubectl_name(record.target)}"
        names = " ".join(secret_name(root) for root in record.undo["roots"])
        return f"kubectl delete secret {names} -n {record.target.namespace}"


def _target(entry: Obj, state: str) -> Target:
    if entry["kind"] == "ServiceAccount":
        return Target("v1", entry["kind"], state, entry["name"])
    return Target(_RBAC, entry["kind"], "", entry["name"])


def _is_application(record: Record) -> bool:
    return "roots" in record.undo


def _before(cluster: ClusterPort, change: Apply, *, builds_on: bool) -> Obj:
    """Return what the undo needs: pictures of the cloud, or the files that are about to be changed."""
    if builds_on:  # the clouds are given back by the run that came first
        before = terraform_code.read_files(cluster, change.changes)
        return {"roots": [*change.roots], "clouds": {}, "before": before}
    clouds = {project: cloud_changes.picture(cluster, project) for project in cloud_changes.projects(cluster)}
    return {"roots": [*change.roots], "clouds": clouds}


def _apply_whole(cluster: ClusterPort, change: Apply, record: Record) -> None:
    _grant_cloud_roles(cluster, change, record.undo["clouds"])
    terraform_code.replace_code(cluster, change.code)
    for root in change.roots:
        terraform_runs.apply_root(cluster, change.state, root, change.imports.get(root, {}))


def _apply_changes(cluster: ClusterPort, change: Apply, record: Record) -> None:
    if not change.changes:
        return
    _grant_cloud_roles(cluster, change, cloud_changes.projects(cluster))
    terraform_code.overlay_files(cluster, change.changes)
    for root in change.roots:
        terraform_runs.apply_over(cluster, change.state, root, change.imports.get(root, {}))


def _grant_cloud_roles(cluster: ClusterPort, change: Apply, projects: Iterable[str]) -> None:
    member = f"{NAMESPACE}/{TERRAFORM_ACCOUNT}"
    for project in projects if change.cloud_roles else ():
        cloud_changes.grant(cluster, project, cloud_changes.workload(project, member), change.cloud_roles)


def _changed(cluster: ClusterPort, record: Record) -> list[str]:
    clouds: Mapping[str, Any] = record.undo["clouds"]
    return [
        name
        for project, before in clouds.items()
        for name in cloud_changes.differences(before, cloud_changes.picture(cluster, project))
    ]


def _forget(cluster: ClusterPort, record: Record) -> str:
    clouds: Mapping[str, Any] = record.undo["clouds"]
    restored = [
        name for project, before in clouds.items() for name in cloud_changes.restore(cluster, project, before)
    ]
    for root in record.undo["roots"]:
        for kind in (terraform_runs.LEASE, _SECRET):
            terraform_runs.forget(cluster, record.target.namespace, root, kind)
    return f"state deleted, {len(restored)} resources of the cloud restored"


def _restore_code(cluster: ClusterPort, record: Record) -> str:
    """Take the changes out of the code that another run goes on with, as far as that is possible.

    In the end it is not: Terraform has no rights any more, and all of it goes with that run in a moment.
    """
    before, namespace = record.undo["before"], record.target.namespace
    if before and record.state is not State.REVERTED:
        with suppress(Invalid, Unreachable):
            terraform_runs.require_rights(cluster, namespace)
            terraform_code.restore_files(cluster, before)
            for root in record.undo["roots"]:
                terraform_runs.apply_over(cluster, namespace, root, {})
    return KEPT
