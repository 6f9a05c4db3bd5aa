"""Traces of an injection in objects that were there before: field managers, times of writes, events of roll-outs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from faults.catalog_check.errors import ProofFailed
from faults.kube.client import Kube

Obj = dict[str, Any]
Writes = frozenset[tuple[str, str]]
"""Managers of an object's fields, and when they last wrote."""
CONTROL_PLANE = ("kube-", "kubelet")
"""Beginnings of names of field managers that write at any time."""
EVENT = ("v1", "Event")


class Traces:
    """The objects of namespaces, and of none, as they were when this was made: before the fault."""

    def __init__(self, kube: Kube, namespaces: Sequence[str]) -> None:
        self._kube = kube
        kinds = [kind for kind in kube.kinds() if {"list", "patch"} <= kind.verbs]
        self._places = [
            (kind.api_version, kind.kind, namespace)
            for kind in kinds
            for namespace in (namespaces if kind.namespaced else [""])
        ]
        self._before = {obj["metadata"]["uid"]: _writes(obj) for _, obj in self._objects()}

    def refuse(self) -> None:
        """Raise ProofFailed for an object that says that it was changed since, and for an event of a roll-out."""
        for place, obj in self._objects():
            meta = obj["metadata"]
            name = f"{place[1]} {meta.get('namespace', '')}/{meta['name']}"
            before = self._before.get(meta["uid"])
            if place[:2] == EVENT and before is None and obj.get("type") == "Normal":
                raise ProofFailed(f"{name} tells of the injection: {obj.get('message')!r}")
            if before is not None and (new := _writes(obj) - before):
                raise ProofFailed(f"{name} was there before, and its managedFields tell of the injection: {new}")

    def _objects(self) -> Iterator[tuple[tuple[str, str, str], Obj]]:
        for place in self._places:
            for obj in self._kube.list(*place):
                yield place, obj


def _writes(obj: Obj) -> Writes:
    entries = obj["metadata"].get("managedFields") or []
    asked = [entry for entry in entries if not entry.get("subresource")]
    found = [(str(entry.get("manager", "")), str(entry.get("time", ""))) for entry in asked]
    return frozenset(write for write in found if not write[0].startswith(CONTROL_PLANE))
