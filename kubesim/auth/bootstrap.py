"""The roles and bindings that every cluster is born with, as data."""

from __future__ import annotations

from kubesim.errors import Obj

RBAC = "rbac.authorization.k8s.io"
LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "deletecollection", "patch", "update"]
CORE_READ = ["bindings", "configmaps", "endpoints", "events", "limitranges", "namespaces", "namespaces/status",
             "persistentvolumeclaims", "persistentvolumeclaims/status", "pods", "pods/log", "pods/status",
             "replicationcontrollers", "replicationcontrollers/scale", "replicationcontrollers/status",
             "resourcequotas", "resourcequotas/status", "serviceaccounts", "services", "services/status"]  # fmt: skip
CORE_WRITE = ["configmaps", "events", "persistentvolumeclaims", "pods", "pods/attach", "pods/eviction", "pods/exec",
              "pods/portforward", "pods/proxy", "replicationcontrollers", "replicationcontrollers/scale", "secrets",
              "serviceaccounts", "services", "services/proxy"]  # fmt: skip
GROUPS: dict[str, list[str]] = {
    "apps": ["controllerrevisions", "daemonsets", "daemonsets/status", "deployments", "deployments/rollback",
             "deployments/scale", "deployments/status", "replicasets", "replicasets/scale", "replicasets/status",
             "statefulsets", "statefulsets/scale", "statefulsets/status"],
    "autoscaling": ["horizontalpodautoscalers", "horizontalpodautoscalers/status"],
    "batch": ["cronjobs", "cronjobs/status", "jobs", "jobs/status"],
    "discovery.k8s.io": ["endpointslices"],
    "networking.k8s.io": ["ingresses", "ingresses/status", "networkpolicies"],
    "policy": ["poddisruptionbudgets", "poddisruptionbudgets/status"],
}  # fmt: skip
EVERYTHING: list[Obj] = [
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
]
PUBLIC = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
DISCOVERY = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz",
             "/version", "/version/"]  # fmt: skip


def _rule(group: str, resources: list[str], verbs: list[str]) -> Obj:
    """Return one rule."""
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _view() -> list[Obj]:
    """Return what ``view`` may read."""
    return [_rule("", CORE_READ, READ), *(_rule(group, names, READ) for group, names in GROUPS.items())]


def _edit() -> list[Obj]:
    """Return what ``edit`` may read and write."""
    writes = [_rule(group, [n for n in names if not n.endswith("/status")], WRITE) for group, names in GROUPS.items()]
    tokens = [_rule("", ["serviceaccounts/token"], ["create"]), _rule("", ["serviceaccounts"], ["impersonate"])]
    secrets = [_rule("", ["secrets", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"], READ)]
    return [*tokens, *secrets, _rule("", CORE_WRITE, WRITE), *writes, *_view()]


def _admin() -> list[Obj]:
    """Return what ``admin`` may do beyond ``edit``."""
    return [
        _rule("authorization.k8s.io", ["localsubjectaccessreviews"], ["create"]),
        _rule(RBAC, ["rolebindings", "roles"], [*WRITE, *READ]),
        *_edit(),
    ]


ROLES: dict[str, list[Obj]] = {
    "cluster-admin": EVERYTHING,
    "admin": _admin(),
    "edit": _edit(),
    "view": _view(),
    "system:basic-user": [
        _rule("authorization.k8s.io", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["create"]),
        _rule("authentication.k8s.io", ["selfsubjectreviews"], ["create"]),
    ],
    "system:discovery": [{"nonResourceURLs": DISCOVERY, "verbs": ["get"]}],
    "system:public-info-viewer": [{"nonResourceURLs": PUBLIC, "verbs": ["get"]}],
}
GROUP_BINDINGS: dict[str, tuple[str, ...]] = {
    "cluster-admin": ("system:masters",),
    "system:basic-user": ("system:authenticated",),
    "system:discovery": ("system:authenticated",),
    "system:public-info-viewer": ("system:authenticated", "system:unauthenticated"),
}


def objects() -> list[tuple[str, Obj]]:
    """Return (resource, object) of every default role and binding."""
    roles = [(f"clusterroles.{RBAC}", _object("ClusterRole", name, rules=rules)) for name, rules in ROLES.items()]
    bindings = [(f"clusterrolebindings.{RBAC}", _binding(name, groups)) for name, groups in GROUP_BINDINGS.items()]
    return [*roles, *bindings]


def _binding(role: str, groups: tuple[str, ...]) -> Obj:
    """Return the binding of a default role to groups."""
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    subjects = [{"apiGroup": RBAC, "kind": "Group", "name": group} for group in groups]
    return _object("ClusterRoleBinding", role, roleRef=reference, subjects=subjects)


def _object(kind: str, name: str, **fields: object) -> Obj:
    """Return an object with the labels and the annotation that mark defaults."""
    annotations = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    meta = {"name": name, "labels": LABELS, "annotations": annotations}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": meta, **fields}
