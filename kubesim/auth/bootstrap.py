"""The roles and bindings that every cluster is born with.

``bootstrap.json`` was read from a fresh control plane; the roles of single controllers, which nobody else is given,
are left out.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import orjson

from kubesim.errors import Obj

RBAC = "rbac.authorization.k8s.io"
TABLE = Path(__file__).with_name("bootstrap.json")
LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}


def objects() -> list[tuple[str, Obj]]:
    """Return (resource, object) of every default role and binding."""
    table = _table()
    roles = [(f"clusterroles.{RBAC}", _role(name, dict(entry))) for name, entry in table["roles"].items()]
    return roles + [(f"clusterrolebindings.{RBAC}", _binding(name, **e)) for name, e in table["bindings"].items()]


@cache
def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = orjson.loads(TABLE.read_bytes())
    return table


def _role(name: str, entry: Obj) -> Obj:
    return _object("ClusterRole", name, entry.pop("labels", {}), **entry)


def _binding(name: str, role: str, subjects: list[Obj]) -> Obj:
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    return _object("ClusterRoleBinding", name, {}, roleRef=reference, subjects=subjects)


def _object(kind: str, name: str, labels: dict[str, str], **fields: object) -> Obj:
    """Return an object with the labels and the annotation that mark defaults."""
    meta = {"name": name, "labels": LABELS | labels, "annotations": ANNOTATIONS}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": meta, **fields}
