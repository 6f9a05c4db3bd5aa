"""The admission plugin NodeRestriction: the writes that a node may make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cryptography.x509.oid import NameOID

from kubesim.admission.validation.pods import MIRROR
from kubesim.api import status
from kubesim.api.options import Options
from kubesim.auth.certificates import KUBELET, SERVING, parsed
from kubesim.auth.nodes import PREFIX, node_of
from kubesim.auth.users import User
from kubesim.errors import ApiError, Obj
from kubesim.schema.registry import Kind

if TYPE_CHECKING:
    from kubesim.api.operations import Operations

OWN_LABELS = {
    "kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os", "beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region", "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
}  # fmt: skip
DOING = "update pod status for pods with spec.nodeName set to itself"
OWN_LABEL_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
RESERVED_DOMAINS = ("kubernetes.io", "k8s.io")


def restrict(ops: Operations, kind: Kind, old: Obj | None, new: Obj, subresource: str, options: Options) -> None:
    """Raise 403 where a node writes what is not its own, or gives itself what would draw pods to it."""
    node = node_of(options.requester) if options.requester is not None else ""
    check = WRITES.get(kind.resource)
    if node and check is not None and (why := check(ops, node, old, new)):
        raise status.forbidden(kind, new["metadata"].get("name", ""), why)


def restrict_deletion(ops: Operations, user: User, kind: Kind, namespace: str, name: str) -> None:
    """Raise 403 where a node deletes a pod that is elsewhere."""
    if (node := node_of(user)) and kind.resource == "pods" and _is_elsewhere(ops, kind, node, namespace, name):
        raise status.forbidden(kind, name, f'node "{node}" can only delete pods with spec.nodeName set to itself')


def restrict_eviction(ops: Operations, user: User, kind: Kind, namespace: str, name: str) -> None:
    """Raise 403 where a node evicts a pod that is elsewhere."""
    if (node := node_of(user)) and _is_elsewhere(ops, kind, node, namespace, name):
        raise status.forbidden(kind, name, f"node {node} can only evict pods with spec.nodeName set to itself")


def _is_elsewhere(ops: Operations, kind: Kind, node: str, namespace: str, name: str) -> bool:
    pod = ops.store.get(kind, namespace, name)
    if pod is None:
        raise ApiError(404, "NotFound", f'pod "{name}" not found', {"name": name, "kind": "pod"})
    return bool(pod["spec"].get("nodeName") != node)


def _wrong_name(what: str) -> Write:
    """Return a check of what has the name of its node."""

    def check(ops: Operations, node: str, old: Obj | None, new: Obj) -> str:
        own = new["metadata"].get("name") == node
        return "" if own else f"can only access {what} with the same name as the requesting node"

    return check


def _wrong_request(ops: Operations, node: str, old: Obj | None, new: Obj) -> str:
    """A node asks for certificates in its own name."""
    if old is not None or new["spec"].get("signerName") not in (KUBELET, SERVING):
        return ""
    try:
        names = parsed(new["spec"]).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError as error:
        return f"unable to parse csr: {error}"
    own = [name.value for name in names] == [f"{PREFIX}{node}"]
    return "" if own else f"can only create a node CSR with CN={PREFIX}{node}"


def _wrong_node(ops: Operations, node: str, old: Obj | None, new: Obj) -> str:
    if (name := new["metadata"].get("name", "")) != node:
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
    if pod is not None and reference["uid"] != pod["metadata"]["uid"]:
        why = f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
        raise status.forbidden(kind, name, f"{why}The object might have been deleted and then recreated")
    if pod is not None and pod["spec"].get("nodeName") != node:
        raise status.forbidden(kind, name, "node requested token bound to a pod scheduled on a different node")


def _wrong_pod(ops: Operations, node: str, old: Obj | None, new: Obj) -> str:
    if old is None:
        if MIRROR in (new["metadata"].get("annotations") or {}):
            return f'node "{node}" can not create mirror pods'  # no kubelet here has pods of its own
        return f'pod does not have "{MIRROR}" annotation, node "{node}" can only create mirror pods'
    if old["spec"].get("nodeName") != node:
        return f'node "{node}" can only {DOING}'
    if (old["metadata"].get("labels") or {}) != (new["metadata"].get("labels") or {}):
        return f'node "{node}" cannot update labels through pod status'
    before, after = ((pod.get("status") or {}).get("resourceClaimStatuses") or [] for pod in (old, new))
    return "" if before == after else f'node "{node}" cannot update resource claim statues'


Write = Callable[["Operations", str, Obj | None, Obj], str]
"""Returns why a node may not write an object, given what it was before; nothing where it may."""
WRITES: dict[str, Write] = {
    "nodes": _wrong_node,
    "pods": _wrong_pod,
    "persistentvolumeclaims": lambda ops, node, old, new: f'node "{node}" is not allowed to change claims',
    "leases.coordination.k8s.io": _wrong_name("node lease"),
    "csinodes.storage.k8s.io": _wrong_name("CSINode"),
    "resourceslices.resource.k8s.io": lambda ops, node, old, new: f'node "{node}" is not allowed to make slices',
    "certificatesigningrequests.certificates.k8s.io": _wrong_request,
}
