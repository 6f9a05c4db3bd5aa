"""meta.k8s.io Tables: what ``kubectl get`` asks for instead of the objects themselves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kubesim.errors import ApiError, Obj
from kubesim.schema.printers import DEFAULT, PRINTERS, Column
from kubesim.schema.registry import Kind

POLICIES = ("None", "Metadata", "Object")


def columns_of(kind: Kind) -> tuple[Column, ...]:
    """Return the columns of a kind; those without a printer show their creation time."""
    return PRINTERS.get(kind.resource, DEFAULT)


def include_policy(value: str) -> str:
    """Check the query's includeObject; raises 400 for an unknown one."""
    policy = value or "Metadata"
    if policy not in POLICIES:
        raise ApiError(400, "BadRequest", f'unrecognized includeObject value: "{value}"')
    return policy


def table(
    kind: Kind, items: Sequence[Obj], meta: Obj, now: datetime, *, version: str, policy: str, headers: bool = True
) -> Obj:
    """Return the Table of ``items``; ``meta`` is the list's metadata. Watches send the headers only once."""
    columns = columns_of(kind)
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": meta,
        "columnDefinitions": [column.definition() for column in columns] if headers else None,
        "rows": [row(columns, item, now, version, policy) for item in items],
    }


def row(columns: Sequence[Column], item: Obj, now: datetime, version: str, policy: str) -> Obj:
    """Return one object's row."""
    cells = [column.cell(item, now) for column in columns]
    if policy == "None":
        return {"cells": cells}
    return {"cells": cells, "object": item if policy == "Object" else partial(item, version)}


def partial(item: Obj, version: str) -> Obj:
    """Return an object's PartialObjectMetadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": item.get("metadata", {}),
    }


def partial_list(items: Sequence[Obj], meta: Obj, version: str) -> Obj:
    """Return a PartialObjectMetadataList."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": meta,
        "items": [partial(item, version) for item in items],
    }
