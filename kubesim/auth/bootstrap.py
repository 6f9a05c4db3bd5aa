"""The roles, bindings and service accounts that every cluster is born with.

``bootstrap.json`` was read from a fresh control plane.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesim import data
from kubesim.errors import Obj

RBAC = "rbac.authorization.k8s.io"
_table: data.Reader[dict[str, dict[str, Any]]] = data.beside(__file__, "bootstrap.json")
LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
MORE_ACCOUNTS = ("root-ca-cert-publisher", "ttl-after-finished-controller")
NO_ACCOUNTS = (*("kube-dns", "route-controller"), *("selinux-warning-controller", "service-controller"))
"""Subjects of the default bindings that no controller of a plain cluster runs as, or is given later."""

Entry = tuple[str, str, Obj]


def objects() -> list[Entry]:
    """Return (resource, namespace, object) of every default role, binding and account; namespaces come before."""
    table = _table()
    found = [(f"clusterroles.{RBAC}", "", _role("ClusterRole", name, e)) for name, e in table["roles"].items()]
    found += [
        (f"clusterrolebindings.{RBAC}", "", _binding("Cluster", name, entry))
        for name, entry in table["bindings"].items()
    ]
    return [*found, *_local(table["local"]), *_accounts(table["bindings"])]


def _local(table: dict[str, Any]) -> Iterator[Entry]:
    for namespace, entries in table["roles"].items():
        yield from ((f"roles.{RBAC}", namespace, _role("Role", name, entry)) for name, entry in entries.items())
    for namespace, entries in table["bindings"].items():
        yield from ((f"rolebindings.{RBAC}", namespace, _binding("", name, entry)) for name, entry in entries.items())


def _accounts(bindings: dict[str, Any]) -> Iterator[Entry]:
    subjects = [subject for entry in bindings.values() for subject in entry.get("subjects", ())]
    names = {subject["name"] for subject in subjects if subject["kind"] == "ServiceAccount"}
    for name in sorted({*names, *MORE_ACCOUNTS} - {*NO_ACCOUNTS}):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        yield "serviceaccounts", "kube-system", account


def _role(kind: str, name: str, entry: Obj) -> Obj:
    fields = {field: value for field, value in entry.items() if field != "labels"}
    return _object(kind, name, entry.get("labels", {}), **fields)


def _binding(scope: str, name: str, entry: Obj) -> Obj:
    reference = {"apiGroup": RBAC, "kind": f"{scope}Role", "name": entry["role"]}
    return _object(f"{scope}RoleBinding", name, {}, roleRef=reference, subjects=entry.get("subjects", []))


def _object(kind: str, name: str, labels: dict[str, str], **fields: object) -> Obj:
    """Return an object with the labels and the annotation that mark defaults."""
    meta = {"name": name, "labels": LABELS | labels, "annotations": ANNOTATIONS}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": meta, **fields}
