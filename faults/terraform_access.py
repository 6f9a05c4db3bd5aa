"""Access through Terraform that outlasts its own bindings, taken with the candidate's access and given back with it.

Its account has roles in the cloud's project, which no binding of the cluster shows. And what it has bound itself
belongs to the candidate's work: the accounts of its namespaces, whose tokens somebody may have read in a pod, are set
aside in an annotation of each binding, so that a session which is reopened goes on with what there was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from faults.engine.ports import ClusterPort, Obj
from faults.injectors import cloud_changes
from faults.packs import Workspace
from faults.terraform_state import secret_name
from faults.toolbox_place import TERRAFORM_ACCOUNT

ASIDE = "platform.example.com/inactive-subjects"
_RBAC = "rbac.authorization.k8s.io/v1"


def cut(cluster: ClusterPort, workspace: Workspace, home: str) -> None:
    """Take the roles in the cloud, and the bindings' subjects. Doing it twice does no harm. Raises ClusterError.

    ``home`` is the namespace of Terraform's account, and of the candidate's.
    """
    for project in _projects(cluster, workspace):
        cloud_changes.withdraw(cluster, project, [home, *workspace.namespaces])
    for binding in _bindings(cluster, workspace):
        subjects = binding.get("subjects") or []
        if taken := [subject for subject in subjects if _is_account(subject, workspace)]:
            left = [subject for subject in subjects if subject not in taken]
            _write(cluster, binding, left, [*_set_aside(binding), *taken])


def give_back(cluster: ClusterPort, workspace: Workspace, home: str) -> None:
    """Undo ``cut``. Raises ClusterError."""
    for project in _projects(cluster, workspace):
        if _has_state(cluster, workspace):
            cloud_changes.grant(cluster, project, _member(project, home), workspace.cloud_roles)
    for binding in _bindings(cluster, workspace):
        if aside := _set_aside(binding):
            _write(cluster, binding, [*(binding.get("subjects") or []), *aside], [])


def is_whole(cluster: ClusterPort, workspace: Workspace, home: str) -> bool:
    """Return whether nothing of it is cut. Raises ClusterError."""
    if any(map(_set_aside, _bindings(cluster, workspace))):
        return False
    projects = _projects(cluster, workspace)
    return not projects or not _has_state(cluster, workspace) or all(_holds(cluster, workspace, home, projects))


def _projects(cluster: ClusterPort, workspace: Workspace) -> list[str]:
    return cloud_changes.projects(cluster) if workspace.cloud_roles else []


def _member(project: str, home: str) -> str:
    return cloud_changes.workload(project, f"{home}/{TERRAFORM_ACCOUNT}")


def _holds(cluster: ClusterPort, workspace: Workspace, home: str, projects: list[str]) -> Iterator[bool]:
    for project in projects:
        held = cloud_changes.roles_of(cluster, project, _member(project, home))
        yield held >= set(workspace.cloud_roles)


def _has_state(cluster: ClusterPort, workspace: Workspace) -> bool:
    """Return whether anything was applied: before that the account has no roles in the cloud."""
    secrets = cluster.list("v1", "Secret", workspace.state)
    return any(secret["metadata"]["name"].startswith(secret_name("")) for secret in secrets)


def _bindings(cluster: ClusterPort, workspace: Workspace) -> list[Obj]:
    """Return the bindings that Terraform may have made."""
    spaces = {workspace.state, *workspace.namespaces}
    whole = {name for kind, name in workspace.objects if kind == "ClusterRoleBinding"}
    found = [{**row, "kind": "RoleBinding"} for row in cluster.list(_RBAC, "RoleBinding")]
    found = [binding for binding in found if binding["metadata"]["namespace"] in spaces]
    wide = cluster.list(_RBAC, "ClusterRoleBinding") if whole else []
    return found + [{**row, "kind": "ClusterRoleBinding"} for row in wide if row["metadata"]["name"] in whole]


def _is_account(subject: Obj, workspace: Workspace) -> bool:
    return subject["kind"] == "ServiceAccount" and subject.get("namespace") in workspace.namespaces


def _set_aside(binding: Obj) -> list[Obj]:
    kept = (binding["metadata"].get("annotations") or {}).get(ASIDE)
    return list(json.loads(kept)) if kept else []


def _write(cluster: ClusterPort, binding: Obj, subjects: list[Obj], aside: list[Obj]) -> None:
    meta = binding["metadata"]
    kept = json.dumps(aside) if aside else None
    patch = {
        "metadata": {"annotations": {ASIDE: kept}, "resourceVersion": meta["resourceVersion"]},
        "subjects": subjects,
    }
    cluster.patch(_RBAC, binding["kind"], meta["name"], meta.get("namespace", ""), patch)
