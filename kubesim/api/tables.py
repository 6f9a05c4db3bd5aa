"""meta.k8s.io Tables: what ``kubectl get`` asks for instead of the objects themselves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache

import orjson

from kubesim.api.convert import printable
from kubesim.errors import ApiError, Obj
from kubesim.schema import columns as builtin
from kubesim.schema.columns import Column
from kubesim.schema.registry import Kind
from kubesim.store import Stored

POLICIES = ("None", "Metadata", "Object")
UNKNOWN_POLICY = (
    'Unable to convert to Table as requested: includeObject: Invalid value: "{}": '
    "must be 'Metadata', 'Object', 'None', or empty"
)
LATER = timedelta(days=4000)
"""A cell that is the same after this is the same at any time."""


def columns_of(kind: Kind, *, scale: bool = False) -> tuple[Column, ...]:
    """Return the columns of a kind, or of its ``scale``; those without a printer show their creation time."""
    if scale:
        return builtin.columns_of("scales.autoscaling")
    return kind.custom.columns if kind.custom is not None else builtin.columns_of(kind.resource)


def include_policy(value: str) -> str:
    """Check the query's includeObject; raises 400 for an unknown one."""
    policy = value or "Metadata"
    if policy not in POLICIES:
        raise ApiError(400, "BadRequest", UNKNOWN_POLICY.format(value))
    return policy


class Rows:
    """Encodes objects as rows of a table. What the time does not change is encoded once per version of an object."""

    def __init__(self, columns: tuple[Column, ...], policy: str, version: str) -> None:
        self._columns = columns
        self._policy = policy
        self._version = version

    def encode(self, item: Obj, now: datetime) -> bytes:
        """Return one object's row as JSON."""
        shown = printable(item)
        if not isinstance(item, Stored):
            return _filled(self._parts(item, shown, now), shown, now)
        parts = item.memo.get(self)
        if parts is None:
            parts = item.memo[self] = self._parts(item, shown, now)
        return _filled(parts, shown, now)

    def _parts(self, item: Obj, shown: Obj, now: datetime) -> list[bytes | Column]:
        """Return a row in parts: a column stands for a cell that will be another one later."""
        parts: list[bytes | Column] = []
        text = b'{"cells":['
        for number, column in enumerate(self._columns):
            text += b"," if number else b""
            cell = column.cell(shown, now)
            if callable(column.value) and column.cell(shown, now + LATER) != cell:
                parts += [text, column]
                text = b""
            else:
                text += orjson.dumps(cell)
        return [*parts, text + b"]" + self._object(item) + b"}"]

    def _object(self, item: Obj) -> bytes:
        """Return what a row says of the object itself."""
        match self._policy:
            case "None":
                return b""
            case "Object":
                return b',"object":' + (item.raw if isinstance(item, Stored) else orjson.dumps(item))
            case _:
                return b',"object":' + orjson.dumps(partial(item, self._version))


def _filled(parts: list[bytes | Column], item: Obj, now: datetime) -> bytes:
    """Return a row with the cells of this moment."""
    return b"".join([part if isinstance(part, bytes) else orjson.dumps(part.cell(item, now)) for part in parts])


@cache
def rows_of(columns: tuple[Column, ...], policy: str, version: str) -> Rows:
    """Return the one encoder of such rows, so that its work is found again."""
    return Rows(columns, policy, version)


def table(
    columns: tuple[Column, ...],
    items: Sequence[Obj],
    meta: Obj,
    now: datetime,
    *,
    version: str,
    policy: str,
    headers: bool = True,
) -> bytes:
    """Return the Table of ``items``; ``meta`` is the list's metadata. Watches send the headers only once."""
    rows = rows_of(columns, policy, version)
    head = {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": meta,
        "columnDefinitions": [column.definition() for column in columns] if headers else None,
    }
    return orjson.dumps(head | {"rows": [orjson.Fragment(rows.encode(item, now)) for item in items]})


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
