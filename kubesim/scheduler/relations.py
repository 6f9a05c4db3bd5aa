"""What else pods belong to: namespaces, services, owners and disruption budgets."""

from __future__ import annotations

from kubesim.api.selectors import LabelSelector, Requirement, from_struct
from kubesim.errors import Obj
from kubesim.informer import Informers

OWNERS = {
    "ReplicaSet": "replicasets.apps",
    "StatefulSet": "statefulsets.apps",
    "ReplicationController": "replicationcontrollers",
}
"""The kinds whose pods are spread by default."""


class Watched:
    """The relations of a cluster's pods."""

    def __init__(self, informers: Informers) -> None:
        self._namespaces = informers["namespaces"]
        self._services = informers["services"]
        self._services.add_index("namespace", lambda service: [service["metadata"]["namespace"]])
        self._owners = {kind: informers[resource] for kind, resource in OWNERS.items()}
        self._budgets = informers["poddisruptionbudgets.policy"]

    def namespace_labels(self, name: str) -> dict[str, str]:
        """Return the labels of a namespace."""
        found = self._namespaces.get("", name)
        return (found["metadata"].get("labels") or {}) if found is not None else {}

    def budgets(self) -> list[Obj]:
        """Return all PodDisruptionBudgets."""
        return self._budgets.items()

    def siblings(self, pod: Obj) -> LabelSelector | None:
        """Return what selects the pods of the same services and owner, if anything does."""
        found = [entry for service in self._services_of(pod) for entry in _equal(service["spec"]["selector"])]
        found += self._owner_selector(pod)
        return LabelSelector(tuple(dict.fromkeys(found))) if found else None

    def _services_of(self, pod: Obj) -> list[Obj]:
        labels = pod["metadata"].get("labels") or {}
        services = self._services.by("namespace", pod["metadata"]["namespace"])
        return [found for found in services if _is_part(found["spec"].get("selector") or {}, labels)]

    def _owner_selector(self, pod: Obj) -> list[Requirement]:
        meta = pod["metadata"]
        owner = next((found for found in meta.get("ownerReferences") or () if found.get("controller")), None)
        informer = self._owners.get(owner["kind"]) if owner is not None else None
        if owner is None or informer is None:
            return []
        found = informer.get(meta["namespace"], owner["name"])
        selector = (found["spec"].get("selector") or {}) if found is not None else {}
        if owner["kind"] == "ReplicationController":
            return _equal(selector)
        return list(from_struct(selector).requirements)


def _is_part(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return bool(selector) and selector.items() <= labels.items()


def _equal(selector: dict[str, str]) -> list[Requirement]:
    return [Requirement(key, "in", frozenset((value,))) for key, value in sorted(selector.items())]
