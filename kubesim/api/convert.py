"""Two versions of one stored kind: events.k8s.io/v1 calls some fields of a v1 Event differently, and autoscaling/v1
says less than what is stored."""

from __future__ import annotations

from kubesim.api.autoscaling import VERSIONS
from kubesim.errors import Obj
from kubesim.schema.registry import Kind, Registry


def stored_kind(registry: Registry, kind: Kind) -> Kind:
    """Return the kind as which the objects of ``kind`` are stored."""
    return registry.by_resource(kind.storage) if kind.storage else kind


def to_stored(kind: Kind, stored: Kind, obj: Obj) -> Obj:
    """Return a served object as it is stored."""
    if kind.storage and kind.api_version in VERSIONS:
        return VERSIONS[kind.api_version][0](obj)
    return _renamed(obj, stored, kind.renames) if kind.storage else obj


def to_served(kind: Kind, obj: Obj) -> Obj:
    """Return a stored object as ``kind`` serves it."""
    if kind.storage and kind.api_version in VERSIONS:
        return VERSIONS[kind.api_version][1](obj)
    if kind.custom is not None:
        obj = kind.custom.read(obj)
    if kind.storage or (kind.custom is not None and obj["apiVersion"] != kind.api_version):
        return _renamed(obj, kind, tuple((old, new) for new, old in kind.renames))
    return obj


def _renamed(obj: Obj, kind: Kind, renames: tuple[tuple[str, str], ...]) -> Obj:
    names = dict(renames)
    renamed = {names.get(name, name): value for name, value in obj.items()}
    return renamed | {"kind": kind.kind, "apiVersion": kind.api_version}
