"""Objects of existing namespaces that a candidate may change: put back between two routes, which no session does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from faults.errors import Conflict
from faults.kube.client import Kube
from faults.packs import Pack
from faults.packs.rights import WRITE, split_resource

Obj = dict[str, Any]
Key = tuple[str, str, str, str]
MAX_TRIES = 5
_OWN = ("apiVersion", "kind", "metadata", "status")
"""The fields of an object that hold its name and what the cluster writes; all others are what somebody asked for."""
_ASKED_META = ("labels", "annotations")


class ExistingObjects:
    """What there was in a pack's existing namespaces when this was made, of the kinds that its rights may change."""

    def __init__(self, kube: Kube, pack: Pack) -> None:
        self._kube = kube
        self._places = [*dict.fromkeys(_places(kube, pack))]
        self._before = self._objects()

    def put_back(self) -> None:
        """Delete what is new since then, make what is missing, and give what has changed its fields again."""
        now = self._objects()
        for key in now.keys() - self._before.keys():
            self._kube.delete(*key)
        for key, obj in self._before.items():
            meta = {name: value for name, value in obj["metadata"].items() if name not in ("uid", "resourceVersion")}
            if key not in now:
                self._kube.create({**obj, "metadata": meta})
            elif _asked(now[key]) != _asked(obj):
                self._replace(key, {**obj, "metadata": meta})

    def _replace(self, key: Key, obj: Obj) -> None:
        """Replace an object, again where its controller has written its status in between."""
        for tries_left in reversed(range(MAX_TRIES)):
            version = self._kube.get(*key)["metadata"]["resourceVersion"]
            try:
                self._kube.replace({**obj, "metadata": {**obj["metadata"], "resourceVersion": version}})
                return
            except Conflict:
                if not tries_left:
                    raise

    def _objects(self) -> dict[Key, Obj]:
        found = [obj for place in self._places for obj in self._kube.list(*place)]
        return {_key(obj): obj for obj in found if not obj["metadata"].get("ownerReferences")}


def _places(kube: Kube, pack: Pack) -> Iterator[tuple[str, str, str]]:
    """Yield version, kind and namespace of what the candidate may write in existing namespaces."""
    for rule in pack.access:
        wanted = {split_resource(text) for text in rule.resources} if set(rule.verbs) & set(WRITE) else set()
        for resource in kube.kinds() if wanted else ():
            group = resource.api_version.rpartition("/")[0]
            for namespace in rule.namespaces if (group, resource.plural) in wanted else ():
                if namespace in pack.existing:
                    yield resource.api_version, resource.kind, namespace


def _key(obj: Obj) -> Key:
    return obj["apiVersion"], obj["kind"], obj["metadata"]["name"], obj["metadata"]["namespace"]


def _asked(obj: Obj) -> Obj:
    meta = {name: obj["metadata"].get(name) or {} for name in _ASKED_META}
    return meta | {name: value for name, value in obj.items() if name not in _OWN}
