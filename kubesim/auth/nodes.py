"""What a node may do with its own certificate: the Node authorizer, and the admission plugin NodeRestriction.

A user ``system:node:NAME`` of ``system:nodes`` has the rules of the cluster role system:node, narrowed to what
belongs to pods that are bound to that node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kubesim.api import status
from kubesim.api.options import Options
from kubesim.auth.attributes import Attributes
from kubesim.auth.rbac import Policies, rule_allows
from kubesim.auth.users import User
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

GROUP, PREFIX = "system:nodes", "system:node:"
ROLE = "system:node"
LEASES = "kube-node-lease"
READS = ("get", "list", "watch")
REFERENCES = {
    "secrets": {
        ("secret", "secretName"), ("secret", "name"), ("secretKeyRef", "name"), ("secretRef", "name"),
        ("imagePullSecrets", "name"),
    },
    "configmaps": {("configMap", "name"), ("configMapKeyRef", "name"), ("configMapRef", "name")},
    "persistentvolumeclaims": {("persistentVolumeClaim", "claimName")},
    "serviceaccounts": {("spec", "serviceAccountName")},
}  # fmt: skip
"""Resource -> where a pod names an object of it: the field around the name, and the field of the name."""
OWN_LABELS = {
    "kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os", "beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region", "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
}  # fmt: skip
MIRROR = "kubernetes.io/config.mirror"
MIRRORED = ("serviceaccounts", "secrets", "configmaps", "persistentvolumeclaims")
"""What a mirror pod may not name, in the order in which it is looked for."""
DOING = "update pod status for pods with spec.nodeName set to itself"
OWN_LABEL_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
RESERVED_DOMAINS = ("kubernetes.io", "k8s.io")


def node_of(user: User) -> str:
    """Return the name of the node that a user is; empty for anybody else."""
    return user.name.removeprefix(PREFIX) if GROUP in user.groups and user.name.startswith(PREFIX) else ""


class NodeAuthorizer:
    """Answers whether a node may do something."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies

    def allows(self, user: User, attributes: Attributes) -> bool:
        """Tell whether the rules of nodes permit a request, and it is about what is the node's own."""
        node = node_of(user)
        if not node:
            return False
        role = self._policies.find("clusterroles.rbac.authorization.k8s.io", "", ROLE) or {}
        ruled = any(rule_allows(rule, attributes) for rule in role.get("rules") or ())
        return ruled and self._is_own(node, attributes)

    def _is_own(self, node: str, asked: Attributes) -> bool:
        match asked.group, asked.resource:
            case "", "nodes" if asked.verb in READS:
                return asked.name == node
            case "", "pods" if asked.verb in ("list", "watch") and not asked.name:
                return f"spec.nodeName={node}" in asked.fields.replace("==", "=").split(",")
            case "", "pods" if asked.verb in (*READS, "delete"):
                pod = self._policies.find("pods", asked.namespace, asked.name)
                return pod is None or pod["spec"].get("nodeName") == node
            case "", "secrets" | "configmaps" | "persistentvolumeclaims" | "serviceaccounts" as resource:
                return bool(asked.name) and self._is_used(node, resource, asked)
            case "coordination.k8s.io", "leases":
                return asked.namespace == LEASES and (asked.verb == "create" or asked.name == node)
            case "storage.k8s.io", "csinodes":
                return asked.verb == "create" or asked.name == node
        return True

    def _is_used(self, node: str, resource: str, asked: Attributes) -> bool:
        """Tell whether a pod of the node names an object."""
        wanted = REFERENCES[resource]
        pods = (pod for pod in self._policies.every("pods", asked.namespace) if pod["spec"].get("nodeName") == node)
        return any(
            (around, field) in wanted and value == asked.name
            for pod in pods
            for around, field, value in _texts("spec", pod["spec"])
        )


def _texts(around: str, value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield every text of a document with its field, and the field around that."""
    if isinstance(value, dict):
        for field, inner in value.items():
            if isinstance(inner, str):
                yield around, field, inner
            else:
                yield from _texts(field, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(around, inner)


def restrict(ops: Operations, kind: Kind, old: Obj | None, new: Obj, subresource: str, options: Options) -> None:
    """Raise 403 where a node writes what is not its own, or gives itself what would draw pods to it."""
    node = node_of(options.requester) if options.requester is not None else ""
    name = new["metadata"].get("name", "")
    if not node:
        return
    if kind.resource == "nodes":
        why = _wrong_node(node, name, old, new)
    elif kind.resource == "pods":
        why = _wrong_pod(node, old, new)
    else:
        return
    if why:
        raise status.forbidden(kind, name, why)


def _wrong_node(node: str, name: str, old: Obj | None, new: Obj) -> str:
    if name != node:
        return f'node "{node}" is not allowed to modify node "{name}"'
    labels = _changed_labels(old, new)
    if old is None:
        return f'node "{node}" is not allowed to set the following labels: {labels}' if labels else ""
    if (old["spec"].get("taints") or []) != (new["spec"].get("taints") or []):
        return f'node "{node}" is not allowed to modify taints'
    if old["metadata"].get("ownerReferences") != new["metadata"].get("ownerReferences"):
        return f'node "{node}" is not allowed to modify ownerReferences'
    return f"is not allowed to modify labels: {labels}" if labels else ""


def _changed_labels(old: Obj | None, new: Obj) -> str:
    """Return the labels that have changed though they are not for nodes to set."""
    before, after = (((found or {}).get("metadata") or {}).get("labels") or {} for found in (old, new))
    changed = {label for label in {*before, *after} if before.get(label) != after.get(label)}
    return ", ".join(sorted(label for label in changed if _is_reserved(label)))


def _is_reserved(label: str) -> bool:
    domain = label.rpartition("/")[0]
    if label in OWN_LABELS or any(domain == own or domain.endswith(f".{own}") for own in OWN_LABEL_DOMAINS):
        return False
    return any(domain == reserved or domain.endswith(f".{reserved}") for reserved in RESERVED_DOMAINS)


def _wrong_mirror(node: str, pod: Obj) -> str:
    """Return why a node may not create a pod: it would read through it what is not its own."""
    if MIRROR not in (pod["metadata"].get("annotations") or {}):
        return f'pod does not have "{MIRROR}" annotation, node "{node}" can only create mirror pods'
    if pod["spec"].get("nodeName") != node:
        return f'node "{node}" can only create pods with spec.nodeName set to itself'
    owners = pod["metadata"].get("ownerReferences") or []
    if len(owners) > 1:
        return f'node "{node}" can only create pods with a single owner reference set to itself'
    if [_named(owner) for owner in owners] != [("v1", "Node", node)]:
        return f'node "{node}" can only create pods with an owner reference set to itself'
    fields = {(around, field) for around, field, _ in _texts("spec", pod["spec"])}
    named = next((resource for resource in MIRRORED if fields & REFERENCES[resource]), "")
    return f'node "{node}" can not create pods that reference {named}' if named else ""


def _named(reference: Any) -> tuple[object, ...]:
    """Return (apiVersion, kind, name) of a reference; nothing of what is none."""
    fields = ("apiVersion", "kind", "name")
    return tuple(reference.get(field) for field in fields) if isinstance(reference, dict) else ()


def restrict_token(ops: Operations, user: User, kind: Kind, namespace: str, name: str, review: Obj) -> None:
    """Raise 403 where a node asks for a token that does not end with a pod of its own."""
    node = node_of(user)
    if not node:
        return
    spec = review.get("spec")
    reference = spec.get("boundObjectRef") if isinstance(spec, dict) else None
    *what, bound = _named(reference) or ("", "", "")
    if not isinstance(reference, dict) or what != ["v1", "Pod"] or not isinstance(bound, str) or not bound:
        raise status.forbidden(kind, name, "node requested token not bound to a pod")
    if not reference.get("uid"):
        raise status.forbidden(kind, name, "node requested token with a pod binding without a uid")
    pod = ops.store.get(ops.registry.by_resource("pods"), namespace, bound)
    if pod is not None and pod["spec"].get("nodeName") != node:
        raise status.forbidden(kind, name, "node requested token bound to a pod scheduled on a different node")


def _wrong_pod(node: str, old: Obj | None, new: Obj) -> str:
    if old is None:
        return _wrong_mirror(node, new)
    if old["spec"].get("nodeName") != node:
        return f'node "{node}" can only {DOING}'
    if old["metadata"].get("labels") != new["metadata"].get("labels"):
        return f'node "{node}" cannot update labels through pod status'
    return ""
