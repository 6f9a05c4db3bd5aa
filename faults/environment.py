"""A session's place in a cluster before any fault: namespaces with limits, and an identity with least privilege.

The names tell nothing. Reading is wide inside the session's namespaces: ``kubectl get all`` and ``top`` answer.
Secrets, access rules, quotas, and everything through which they can be reached, are out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faults import guardrails, toolbox
from faults.engine import Change, Record, Target
from faults.guardrails import Guardrails
from faults.injectors import Create, PatchObject
from faults.toolbox import Toolbox

Obj = dict[str, Any]
SERVICE_ACCOUNT = "platform-oncall"
DEFAULT_ACCOUNT = "default"  # the cluster makes one in every namespace
ROLE = "workload-operator"
CLUSTER_ROLE = "node-viewer"
_READ = ["get", "list", "watch"]
_WRITE = ["create", "update", "patch", "delete", "deletecollection"]
GRANTING_KINDS = ("RoleBinding", "ClusterRoleBinding")
_RBAC = "rbac.authorization.k8s.io"


def changes(namespaces: Sequence[str], rails: Guardrails | None = None, box: Toolbox | None = None) -> list[Change]:
    """Return the changes that build it, bindings last: nothing is granted before it is all there.

    Without ``rails`` or ``box`` it is what runs of earlier versions were made of: a step is known by its place in
    the list.
    """
    limits = foundation(namespaces, rails, box)
    home = home_of(namespaces, box)
    identity = [
        _service_account(home),
        *([toolbox.pod(box, account=SERVICE_ACCOUNT, selected=namespaces[0]), toolbox.role(box)] if box else []),
        *(_role(name, rails) for name in namespaces),
        _cluster_role(rails, namespaces),
        *([_binding_to(toolbox.ROLE, box.namespace, home)] if box else []),
        *(_binding_to(ROLE, name, home) for name in namespaces),
        _cluster_role_binding(home, rails),
    ]
    tokens = [_without_token(name) for name in namespaces] if rails else []
    return [*limits, *tokens, *(Create(obj, injector="environment") for obj in identity)]


def foundation(namespaces: Sequence[str], rails: Guardrails | None, box: Toolbox | None = None) -> list[Change]:
    """Return the first of these changes: after them the cluster itself has to act before the rest can be made."""
    visitors = [box.namespace] if box else []
    limits = guardrails.objects(rails, namespaces, visitors) if rails else []
    objects = [*(_namespace(name, rails) for name in namespaces), *limits]
    if box:
        shared = rails is not None and rails.shared
        objects += [toolbox.namespace(box), toolbox.network_policy(box, namespaces, shared=shared)]
    return [Create(obj, injector="environment") for obj in objects]


def home_of(namespaces: Sequence[str], box: Toolbox | None) -> str:
    """Return the namespace of the candidate's service account: a pod can run only under one of its own namespace."""
    return box.namespace if box else namespaces[0]


def grants(record: Record) -> bool:
    """Return whether a step gives the candidate rights: without these steps the identity can do nothing."""
    return record.target.kind in GRANTING_KINDS


def username(namespace: str) -> str:
    """Return the candidate's user name, as the API server sees it."""
    return f"system:serviceaccount:{namespace}:{SERVICE_ACCOUNT}"


def _namespace(name: str, rails: Guardrails | None) -> Obj:
    labels = {"labels": guardrails.namespace_labels(rails)} if rails else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **labels}}


def _without_token(namespace: str) -> Change:
    """Keep the token of the account that pods run under out of them: it would outlive the candidate's rights."""
    account = Target("v1", "ServiceAccount", namespace, DEFAULT_ACCOUNT)
    return PatchObject(account, {"automountServiceAccountToken": False}, injector="environment")


def _service_account(namespace: str) -> Obj:
    meta = {"name": SERVICE_ACCOUNT, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta, "automountServiceAccountToken": False}


def _rule(group: str, resources: list[str], verbs: list[str]) -> Obj:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _role(namespace: str, rails: Guardrails | None) -> Obj:
    debugging = [_rule("", ["pods/ephemeralcontainers"], ["get", "update", "patch"])]
    rules = [
        _rule("", ["pods", "services", "configmaps"], _READ + _WRITE),
        _rule("", ["pods/log", "pods/status", "events", "endpoints"], _READ),
        _rule("", ["pods/exec", "pods/attach", "pods/portforward"], ["get", "create"]),
        *(debugging if rails is None or rails.ephemeral_containers else []),
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


def _cluster_role(rails: Guardrails | None, namespaces: Sequence[str]) -> Obj:
    """Reading of nodes and namespaces; on a shared cluster of one's own only, since the list names the others'."""
    rules = [_rule("", ["nodes", "namespaces"], _READ), _rule("metrics.k8s.io", ["nodes"], ["get", "list"])]
    if rails and rails.shared:
        own = {**_rule("", ["namespaces"], ["get"]), "resourceNames": list(namespaces)}
        rules = [_rule("", ["nodes"], _READ), own, rules[1]]
    name = _cluster_scoped_name(rails)
    return {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}


def _cluster_scoped_name(rails: Guardrails | None) -> str:
    return CLUSTER_ROLE + (rails.suffix if rails else "")


def _binding_to(role: str, namespace: str, home: str) -> Obj:
    meta = {"name": role, "namespace": namespace}
    return _binding("RoleBinding", meta, {"apiGroup": _RBAC, "kind": "Role", "name": role}, home)


def _cluster_role_binding(home: str, rails: Guardrails | None) -> Obj:
    name = _cluster_scoped_name(rails)
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
    return _binding("ClusterRoleBinding", {"name": name}, role, home)


def _binding(kind: str, meta: Obj, role: Obj, home: str) -> Obj:
    subject = {"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": home}
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": meta, "roleRef": role, "subjects": [subject]}
