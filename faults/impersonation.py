"""Access that a cluster gives to namesakes of the people and accounts whom a candidate may impersonate.

A pack names them for the whole cluster, since the tenants' namespaces are made later: in a cluster that was there
before the session, the same names may be somebody's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from faults.engine.ports import ClusterPort
from faults.packs import Pack

Obj = dict[str, Any]
_RBAC = "rbac.authorization.k8s.io/v1"
_BINDINGS = ("ClusterRoleBinding", "RoleBinding")
_KINDS = {"users": "User", "groups": "Group", "serviceaccounts": "ServiceAccount"}


def bound_namesakes(cluster: ClusterPort, packs: Sequence[Pack]) -> list[str]:
    """Return the bindings that name one of them, in words, but for those of the packs' own code.

    Raises ClusterError.
    """
    names, own = set(_impersonable(packs)), set(_made_by_terraform(packs))
    if not names:
        return []
    return [
        f"{kind} {binding['metadata']['name']} names the {subject['kind']} {subject['name']}"
        for kind in _BINDINGS
        for binding in cluster.list(_RBAC, kind)
        if (binding["metadata"].get("namespace") or binding["metadata"]["name"]) not in own
        for subject in binding.get("subjects") or ()
        if (subject["kind"], subject["name"]) in names
    ]


def _impersonable(packs: Iterable[Pack]) -> Iterator[tuple[str, str]]:
    """Yield kind and name of whom the packs let a candidate impersonate, whatever the namespace."""
    for rule in (rule for pack in packs for rule in pack.access):
        if "impersonate" in rule.verbs and not rule.namespaces:
            yield from ((_KINDS[each], name) for each in rule.resources if each in _KINDS for name in rule.names)


def _made_by_terraform(packs: Iterable[Pack]) -> Iterator[str]:
    """Yield the namespaces of Terraform, and the names of its cluster role bindings."""
    for workspace in (pack.workspace for pack in packs if pack.workspace):
        yield from (workspace.state, *workspace.namespaces)
        yield from (name for kind, name in workspace.objects if kind == _BINDINGS[0])
