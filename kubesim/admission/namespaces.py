"""NamespaceLifecycle: nothing is created in a namespace that is not there, or that is going."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesim.api import status
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

if TYPE_CHECKING:
    from kubesim.api.operations import Operations


def check(ops: Operations, kind: Kind, new: Obj) -> None:
    """Raise 404 for a namespace that does not exist and 403 for one that is terminating."""
    if not kind.namespaced:
        return
    name = new["metadata"]["namespace"]
    namespaces = ops.registry.by_resource("namespaces")
    namespace = ops.store.get(namespaces, "", name)
    if namespace is None:
        raise status.not_found(namespaces, name)
    if namespace["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {name} because it is being terminated"
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {name} is being terminated",
            "field": "metadata.namespace",
        }
        raise status.forbidden(kind, new["metadata"].get("name", ""), why, [cause])


def labels(ops: Operations, name: str) -> Obj:
    """Return the labels of a namespace, none of one that is not there."""
    found: Obj = ops.store.get(ops.registry.by_resource("namespaces"), "", name) or {"metadata": {}}
    return found["metadata"].get("labels") or {}
