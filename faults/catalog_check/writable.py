"""The objects that a candidate may change: all that has to be looked at between two routes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from faults.kube.client import Kube, Obj
from faults.packs import AccessRule
from faults.packs.rights import WRITE, split_resource

Key = tuple[str, str, str, str]
"""Version, kind, name and namespace."""


class WritableObjects:
    """A cluster's objects of which some rule lets a candidate write; those that a controller makes are its own."""

    def __init__(self, kube: Kube, rules: Iterable[AccessRule], namespaces: Sequence[str]) -> None:
        self._kube = kube
        self._places = [*dict.fromkeys(_places(kube, list(rules), namespaces))]

    def read(self) -> dict[Key, Obj]:
        """Return them as they are now. Raises ClusterError."""
        found = [obj for place in self._places for obj in self._kube.list(*place)]
        return {key_of(obj): obj for obj in found if not obj["metadata"].get("ownerReferences")}


def key_of(obj: Obj) -> Key:
    """Return what tells an object from all others."""
    meta = obj["metadata"]
    return obj["apiVersion"], obj["kind"], meta["name"], meta.get("namespace", "")


def _places(kube: Kube, rules: Sequence[AccessRule], namespaces: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield version, kind and namespace; discovery tells of kinds once, since no route defines new ones."""
    writing = [rule for rule in rules if set(rule.verbs) & set(WRITE)]
    for kind in (kind for kind in kube.kinds() if "list" in kind.verbs):  # reviews are answered, and not kept
        resource = (kind.api_version.rpartition("/")[0], kind.plural)
        for rule in writing:
            if resource in map(split_resource, rule.resources):
                for namespace in (rule.namespaces or namespaces) if kind.namespaced else [""]:
                    yield kind.api_version, kind.kind, namespace
