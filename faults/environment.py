"""What a session needs in a cluster before any fault: its namespaces, and an identity with least privilege.

The names tell nothing. Reading is wide inside the session's namespaces: ``kubectl get all`` and ``top`` answer.
Secrets, access rules, quotas, and everything through which they can be reached, are out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faults.engine import Change, Create, Record

Obj = dict[str, Any]
SERVICE_ACCOUNT = "platform-oncall"
ROLE = "workload-operator"
CLUSTER_ROLE = "node-viewer"
_READ = ["get", "list", "watch"]
_WRITE = ["create", "update", "patch", "delete", "deletecollection"]
GRANTING_KINDS = ("RoleBinding", "ClusterRoleBinding")
_RBAC = "rbac.authorization.k8s.io"


def changes(namespaces: Sequence[str]) -> list[Change]:
    """Return the changes that build it, bindings last: nothing is granted before it is all there."""
    objects = [
        *(_namespace(name) for name in namespaces),
        _service_account(namespaces[0]),
        *(_role(name) for name in namespaces),
        _cluster_role(),
        *(_role_binding(name, namespaces[0]) for name in namespaces),
        _cluster_role_binding(namespaces[0]),
    ]
    return [Create(obj, injector="environment") for obj in objects]


def grants(record: Record) -> bool:
    """Return whether a step gives the candidate rights: without these steps the identity can do nothing."""
    return record.target.kind in GRANTING_KINDS


def username(namespace: str) -> str:
    """Return the candidate's user name, as the API server sees it."""
    return f"system:serviceaccount:{namespace}:{SERVICE_ACCOUNT}"


def _namespace(name: str) -> Obj:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _service_account(namespace: str) -> Obj:
    meta = {"name": SERVICE_ACCOUNT, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, "automountServiceAccountToken": False}


def _rule(group: str, resources: list[str], verbs: list[str]) -> Obj:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _role(namespace: str) -> Obj:
    rules = [
        _rule("", ["pods", "services", "configmaps"], _READ + _WRITE),
        _rule("", ["pods/log", "pods/status", "events", "endpoints"], _READ),
        _rule("", ["pods/exec", "pods/attach", "pods/portforward"], ["get", "create"]),
        _rule("", ["pods/ephemeralcontainers"], ["get", "update", "patch"]),
        _rule("", ["replicationcontrollers"], _READ),
        _rule("apps", ["deployments"], _READ + _WRITE),
        _rule("apps", ["deployments/scale"], ["get", "update", "patch"]),
        _rule("apps", ["replicasets", "statefulsets", "daemonsets"], _READ),
        _rule("autoscaling", ["horizontalpodautoscalers"], _READ),
        _rule("batch", ["jobs"], _READ + _WRITE),
        _rule("batch", ["cronjobs"], _READ),
        _rule("events.k8s.io", ["events"], _READ),
        _rule("discovery.k8s.io", ["endpointslices"], _READ),
        _rule("metrics.k8s.io", ["pods"], ["get", "list"]),
    ]
    meta = {"name": ROLE, "namespace": namespace}
    return {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": meta, "rules": rules}


def _cluster_role() -> Obj:
    rules = [_rule("", ["nodes", "namespaces"], _READ), _rule("metrics.k8s.io", ["nodes"], ["get", "list"])]
    return {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": CLUSTER_ROLE}, "rules": rules}


def _role_binding(namespace: str, home: str) -> Obj:
    meta = {"name": ROLE, "namespace": namespace}
    return _binding("RoleBinding", meta, {"apiGroup": _RBAC, "kind": "Role", "name": ROLE}, home)


def _cluster_role_binding(home: str) -> Obj:
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": CLUSTER_ROLE}
    return _binding("ClusterRoleBinding", {"name": CLUSTER_ROLE}, role, home)


def _binding(kind: str, meta: Obj, role: Obj, home: str) -> Obj:
    subject = {"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": home}
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": meta, "roleRef": role, "subjects": [subject]}
