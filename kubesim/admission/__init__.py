"""What happens to an object between its decoding and the store: defaults, admission, validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesim.admission import namespaces
from kubesim.api import status
from kubesim.api.options import Options
from kubesim.errors import Obj
from kubesim.schema.registry import Kind

if TYPE_CHECKING:
    from kubesim.api.operations import Operations


def decode(kind: Kind, obj: Obj, options: Options) -> Obj:
    """Read an object as ``kind``. Raises 400 where it says that it is another, or where a field has another type."""
    given = (obj.setdefault("apiVersion", kind.api_version), obj.setdefault("kind", kind.kind))
    if given[0] != kind.api_version:
        message = "the API version in the data ({}) does not match the expected API version ({})"
        raise status.bad_request(message.format(given[0], kind.api_version))
    if given[1] != kind.kind:
        raise status.bad_request(f'{given[1]} in version "{given[0]}" cannot be handled as a {kind.kind}')
    return obj


def on_create(ops: Operations, kind: Kind, new: Obj, options: Options) -> None:
    """Complete a new object and refuse what may not be."""
    namespaces.check(ops, kind, new)
    if kind.resource == "namespaces":
        new["spec"] = {"finalizers": ["kubernetes"]}
        new["status"] = {"phase": "Active"}
        new["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = new["metadata"]["name"]
    elif kind.has_status and kind.resource != "nodes":
        new["status"] = {"phase": "Pending"} if kind.resource == "pods" else {}


def on_update(ops: Operations, kind: Kind, old: Obj, new: Obj, subresource: str, options: Options) -> None:
    """Complete a changed object and refuse what may not change."""


def desire(obj: Obj) -> Obj:
    """Return what metadata.generation counts: everything but metadata and status."""
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")}
