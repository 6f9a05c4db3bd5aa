"""What a node may do with its own certificate: the Node authorizer.

A user ``system:node:NAME`` of ``system:nodes`` has the rules of the cluster role system:node, narrowed for the kinds
below to what belongs to pods that are bound to that node. ``noderestriction.py`` looks at what it writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kubesim.auth.rbac import Policies, rule_allows
from kubesim.auth.users import Attributes, User

GROUP, PREFIX = "system:nodes", "system:node:"
ROLE = "system:node"
LEASES = "kube-node-lease"
READS = ("get", "list", "watch")
OWN_VERBS = ("get", "create", "update", "patch", "delete")
REFERENCES = {
    "secrets": {
        ("secret", "secretName"), ("secret", "name"), ("secretKeyRef", "name"), ("secretRef", "name"),
        ("imagePullSecrets", "name"),
    },
    "configmaps": {("configMap", "name"), ("configMapKeyRef", "name"), ("configMapRef", "name")},
    "persistentvolumeclaims": {("persistentVolumeClaim", "claimName")},
    "serviceaccounts": {("spec", "serviceAccountName")},
    "resourceclaims": {("resourceClaims", "resourceClaimName"), ("resourceClaimStatuses", "resourceClaimName")},
}  # fmt: skip
"""Resource -> where a pod names an object of it: the field around the name, and the field of the name."""
PLACED = ("pods", "resourceslices", "volumeattachments")
"""What says itself on which node it is."""


def node_of(user: User) -> str:
    """Return the name of the node that a user is; empty for anybody else."""
    return user.name.removeprefix(PREFIX) if GROUP in user.groups and user.name.startswith(PREFIX) else ""


class NodeAuthorizer:
    """Answers whether a node may do something."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._parted: dict[tuple[str, str], Callable[[str, Attributes], str | None]] = {
            ("", "secrets"): self._read_one,
            ("", "configmaps"): self._read_one,
            ("", "persistentvolumeclaims"): self._claim,
            ("", "persistentvolumes"): self._get,
            ("resource.k8s.io", "resourceclaims"): self._get,
            ("storage.k8s.io", "volumeattachments"): self._get,
            ("", "serviceaccounts"): self._account,
            ("coordination.k8s.io", "leases"): self._lease,
            ("storage.k8s.io", "csinodes"): self._csi_node,
            ("resource.k8s.io", "resourceslices"): self._slice,
            ("", "nodes"): self._node,
            ("", "pods"): self._pod,
        }

    def refusal(self, user: User, asked: Attributes) -> str | None:
        """Return None for what a node may do, else why it may not: "" for no reason, as for anybody else."""
        if GROUP not in user.groups or not user.name.startswith(PREFIX):
            return ""
        node = node_of(user)
        if not node:
            return f'unknown node for user "{user.name}"'
        parted = self._parted.get((asked.group, asked.resource))
        if parted is not None:
            return parted(node, asked)
        role = self._policies.find("clusterroles.rbac.authorization.k8s.io", "", ROLE) or {}
        return None if any(rule_allows(rule, asked) for rule in role.get("rules") or ()) else ""

    def _read_one(self, node: str, asked: Attributes) -> str | None:
        if asked.verb not in READS:
            return "can only read resources of this type"
        if asked.subresource:
            return "cannot read subresource"
        return self._related(node, asked) if asked.namespace else "can only read namespaced object of this type"

    def _get(self, node: str, asked: Attributes) -> str | None:
        if asked.verb != "get":
            return "can only get individual resources of this type"
        return "cannot get subresource" if asked.subresource else self._related(node, asked)

    def _claim(self, node: str, asked: Attributes) -> str | None:
        if asked.subresource != "status":
            return self._get(node, asked)
        written = asked.verb in ("update", "patch")
        return self._related(node, asked) if written else "can only get/update/patch this type"

    def _account(self, node: str, asked: Attributes) -> str | None:
        if asked.verb == "get" and not asked.subresource:
            return self._read_one(node, asked)
        if asked.verb != "create" or not asked.name:
            return "can only create tokens for individual service accounts"
        tokens = asked.subresource == "token"
        return self._related(node, asked) if tokens else "can only create token subresource of serviceaccount"

    def _lease(self, node: str, asked: Attributes) -> str | None:
        if asked.verb not in OWN_VERBS:
            return "can only get, create, update, patch, or delete a node lease"
        if asked.namespace != LEASES:
            return f'can only access leases in the "{LEASES}" system namespace'
        own = asked.verb == "create" or asked.name == node
        return None if own else "can only access node lease with the same name as the requesting node"

    def _csi_node(self, node: str, asked: Attributes) -> str | None:
        if asked.verb not in OWN_VERBS:
            return "can only get, create, update, patch, or delete a CSINode"
        if asked.subresource:
            return "cannot authorize CSINode subresources"
        own = asked.verb == "create" or asked.name == node
        return None if own else "can only access CSINode with the same name as the requesting node"

    def _slice(self, node: str, asked: Attributes) -> str | None:
        if asked.subresource:
            return "cannot authorize ResourceSlice subresources"
        if asked.verb in ("get", "update", "patch", "delete"):
            return self._related(node, asked)
        if asked.verb == "create" or _chooses(asked, "spec.nodeName", node):
            return None
        return "can only list/watch/deletecollection resourceslices with nodeName field selector"

    def _node(self, node: str, asked: Attributes) -> str | None:
        match asked.subresource, asked.verb:
            case "", "get" | "list" | "watch" if asked.name != node:
                what = f"'{asked.name}'" if asked.name else "all nodes"
                return f"node '{node}' cannot read {what}, only its own Node object"
            case ("", "get" | "list" | "watch" | "create" | "update" | "patch") | ("status", "update" | "patch"):
                return None
        return ""

    def _pod(self, node: str, asked: Attributes) -> str | None:
        match asked.subresource, asked.verb:
            case "", "list" | "watch" if _chooses(asked, "spec.nodeName", node):
                return None
            case "", "list" | "watch" if not asked.name:
                return "can only list/watch pods with spec.nodeName field selector"
            case "", "get" | "list" | "watch":
                return self._related(node, asked)
            case ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create"):
                return None
        return ""

    def _related(self, node: str, asked: Attributes) -> str | None:
        """Return None where an object has to do with a node: it is there, or a pod that is there names it."""
        if not asked.name:
            return "No Object name found"
        if asked.resource in PLACED:
            kind = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
            found = (self._policies.find(kind, asked.namespace, asked.name) or {}).get("spec") or {}
            related = found.get("nodeName") == node
        elif asked.resource == "persistentvolumes":
            claims = self._policies.every("persistentvolumeclaims")
            bound = [claim["metadata"] for claim in claims if claim["spec"].get("volumeName") == asked.name]
            claimed = "persistentvolumeclaims"
            related = any(self._is_used(node, claimed, claim["namespace"], claim["name"]) for claim in bound)
        else:
            related = self._is_used(node, asked.resource, asked.namespace, asked.name)
        return None if related else f"no relationship found between node '{node}' and this object"

    def _is_used(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Tell whether a pod of the node names an object."""
        wanted = REFERENCES[resource]
        pods = (pod for pod in self._policies.every("pods", namespace) if pod["spec"].get("nodeName") == node)
        return any(
            (around, field) in wanted and value == name
            for pod in pods
            for part in ("spec", "status")
            for around, field, value in texts(part, pod.get(part))
        )


def _chooses(asked: Attributes, field: str, value: str) -> bool:
    """Tell whether a field selector chooses by a field."""
    return f"{field}={value}" in asked.fields.replace("==", "=").split(",")


def texts(around: str, value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield every text of a document with its field, and the field around that."""
    if isinstance(value, dict):
        for field, inner in value.items():
            if isinstance(inner, str):
                yield around, field, inner
            else:
                yield from texts(field, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(around, inner)
