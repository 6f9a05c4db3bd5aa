"""The candidate's rights by verb, resource and namespace: as a pack lists them, and merged for a session."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

Obj = dict[str, Any]
READ = ("get", "list", "watch")
WRITE = ("create", "update", "patch", "delete", "deletecollection")
VERBS = (*READ, *WRITE, "bind", "escalate", "impersonate", "approve", "sign", "use")
"""All verbs, in the order in which they are written. A pack lists rights by name, so that there is no wildcard."""
NAMELESS = ("create", "deletecollection")
"""Verbs that the API server never allows by the name of an object: it learns that too late, or not at all."""
RIGHTS_SINCE = 2
"""The first ``schema`` in which a pack lists rights by verb and resource."""
WHOLE_CLUSTER = ""
_Cell = tuple[str, str, str]
"""A namespace (or the whole cluster), a resource, and the name of an object (or none for all)."""


@dataclass(frozen=True, slots=True, order=True)
class AccessRule:
    """Verbs on resources, in namespaces; without any, in the whole cluster. ``names`` narrow it to some objects.

    A resource is written as kubectl writes it: ``pods``, ``pods/exec``, ``deployments.apps``,
    ``deployments.apps/scale``.
    """

    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    namespaces: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f" in {' and '.join(self.namespaces)}" if self.namespaces else " in the whole cluster"
        which = f" named {' or '.join(self.names)}" if self.names else ""
        return f"{', '.join(self.verbs)} {', '.join(self.resources)}{which}{where}"

    @classmethod
    def load(cls, row: Mapping[str, Any]) -> AccessRule:
        """Read a row of a pack, or what ``dump`` wrote."""
        fields = ("resources", "verbs", "namespaces", "names")
        return cls(*(tuple(row.get(field, ())) for field in fields))

    def dump(self) -> Obj:
        """Return it as JSON."""
        return {field: list(values) for field, values in asdict(self).items() if values}


def split_resource(text: str) -> tuple[str, str]:
    """Return the group of a resource, and its name with the subresource, as RBAC wants them."""
    whole, _, subresource = text.partition("/")
    name, _, group = whole.partition(".")
    return group, f"{name}/{subresource}" if subresource else name


def former_rules(namespaces: Iterable[str]) -> tuple[AccessRule, ...]:
    """Return what every candidate had on top of today's common set when packs could not list rights yet."""
    workloads = ("services", "configmaps", "deployments.apps", "jobs.batch")
    scale = ("get", "update", "patch")
    rows = ((workloads, (*READ, *WRITE)), (("deployments.apps/scale",), scale))
    return tuple(AccessRule(resources, verbs, tuple(namespaces)) for resources, verbs in rows)


def merge(rules: Iterable[AccessRule]) -> tuple[AccessRule, ...]:
    """Return the union of rules in one form: each right once, what belongs together in one rule, in order."""
    return _rules(_cells(rules))


def subtract(rules: Iterable[AccessRule], held: Iterable[AccessRule]) -> tuple[AccessRule, ...]:
    """Return what rules give beyond others."""
    there = _cells(held)
    missing = {cell: verbs - _held(there, cell) for cell, verbs in _cells(rules).items()}
    return _rules({cell: verbs for cell, verbs in missing.items() if verbs})


def impersonated(rules: Iterable[AccessRule]) -> list[str]:
    """Return the names of users and groups that these rights allow to impersonate."""
    found = (rule for rule in rules if "impersonate" in rule.verbs and {"users", "groups"} & set(rule.resources))
    return sorted({name for rule in found for name in rule.names})


def in_order(verbs: Iterable[str]) -> tuple[str, ...]:
    """Return verbs in the order in which they are written, each once."""
    return tuple(sorted(set(verbs), key=VERBS.index))


def _cells(rules: Iterable[AccessRule]) -> dict[_Cell, set[str]]:
    cells: dict[_Cell, set[str]] = defaultdict(set)
    for rule in rules:
        for namespace in rule.namespaces or (WHOLE_CLUSTER,):
            for resource in rule.resources:
                for name in rule.names or ("",):
                    cells[namespace, resource, name] |= set(rule.verbs)
    left = {cell: verbs - _wider(cells, cell) for cell, verbs in cells.items()}
    return {cell: verbs for cell, verbs in left.items() if verbs}


def _held(cells: Mapping[_Cell, set[str]], cell: _Cell) -> set[str]:
    return cells.get(cell, set()) | _wider(cells, cell)


def _wider(cells: Mapping[_Cell, set[str]], cell: _Cell) -> set[str]:
    """Return the verbs on what includes a cell: all objects of its namespace, or those of every namespace."""
    namespace, resource, name = cell
    including = {(namespace, resource, ""), (WHOLE_CLUSTER, resource, ""), (WHOLE_CLUSTER, resource, name)} - {cell}
    return set[str]().union(*(cells.get(other, set()) for other in including))


def _rules(cells: Mapping[_Cell, set[str]]) -> tuple[AccessRule, ...]:
    names = _grouped(((space, resource, in_order(verbs)), name) for (space, resource, name), verbs in cells.items())
    resources = _grouped(((space, verbs, which), resource) for (space, resource, verbs), which in names.items())
    spaces = _grouped(((kinds, verbs, which), space) for (space, verbs, which), kinds in resources.items())
    return tuple(
        AccessRule(kinds, verbs, tuple(filter(None, where)), tuple(filter(None, which)))
        for (kinds, verbs, which), together in sorted(spaces.items())
        for where in _with_cluster_apart(together)
    )


def _grouped(pairs: Iterable[tuple[Any, str]]) -> dict[Any, tuple[str, ...]]:
    found: dict[Any, set[str]] = defaultdict(set)
    for key, value in pairs:
        found[key].add(value)
    return {key: tuple(sorted(values)) for key, values in found.items()}


def _with_cluster_apart(spaces: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the whole cluster, which is no namespace, in a rule of its own."""
    inside = tuple(filter(None, spaces))
    return [*([()] if WHOLE_CLUSTER in spaces else []), *([inside] if inside else [])]
