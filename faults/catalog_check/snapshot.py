"""Snapshot of all that a candidate may change, brought back before the next route.

No session does that. It stands in for a fresh cluster, or a fresh fault, at a tenth of the price.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from contextlib import suppress

from faults.catalog_check.errors import ProofFailed
from faults.catalog_check.writable import Key, WritableObjects, key_of
from faults.clock import Clock
from faults.engine import LAST_APPLIED, MANAGER, orphans, same
from faults.errors import Conflict, NotFound
from faults.kube.client import Kube, Obj

MAX_TRIES = 5
LOOK_S, PATIENCE_S = 2.0, 120.0
"""Of the cluster's time: between two looks at what is being deleted, and in all."""


class Snapshot:
    """The state of all writable objects; in the session's ``own`` namespaces one that has changed is made anew."""

    def __init__(self, kube: Kube, objects: WritableObjects, own: Collection[str]) -> None:
        self._kube, self._objects, self._own = kube, objects, own
        self._before = objects.read()

    def bring_back(self, clock: Clock) -> None:
        """Delete what is new, make what is missing, and give what has changed its fields again.

        Raises ProofFailed where something does not go, and ClusterError.
        """
        now = self._objects.read()
        changed = {key for key, obj in now.items() if not self._is_as_before(key, obj)}
        replaced = {key for key in changed & self._before.keys() if self._is_put_back(key, now[key])}
        self._delete(changed - replaced, clock)
        for key in replaced:
            self._replace(key, self._before[key])
        for key, obj in self._before.items():
            if key not in now or key in changed - replaced:
                self._kube.create(_as_made(obj), field_manager=MANAGER)

    def _is_put_back(self, key: Key, obj: Obj) -> bool:
        """Tell whether an object gets its fields again, and is not made anew: others', and what has no status."""
        is_same_one = self._before[key]["metadata"]["uid"] == obj["metadata"]["uid"]
        return key[3] not in self._own or (is_same_one and "status" not in obj)

    def _is_as_before(self, key: Key, obj: Obj) -> bool:
        before = self._before.get(key)
        if before is None or "deletionTimestamp" in obj["metadata"]:
            return False
        is_same_one = before["metadata"]["uid"] == obj["metadata"]["uid"] or key[3] not in self._own
        return is_same_one and same(before, obj)

    def _delete(self, keys: Iterable[Key], clock: Clock) -> None:
        """Delete objects, and wait until they have gone with all that they own."""
        left, began = list(keys), clock.now()
        for key in left:
            self._delete_one(key)
        while left := [*filter(self._is_there, left)] or self._orphans():
            if (clock.now() - began).total_seconds() > PATIENCE_S:
                raise ProofFailed(f"this does not go: {', '.join(key[2] for key in left)}")
            for key in left:
                self._delete_one(key)
            clock.wait(LOOK_S)

    def _delete_one(self, key: Key) -> None:
        with suppress(NotFound):
            self._kube.delete(*key, grace_seconds=0 if key[1] == "Pod" else None)

    def _is_there(self, key: Key) -> bool:
        try:
            self._kube.get(*key)
        except NotFound:
            return False
        return True

    def _orphans(self) -> list[Key]:
        found = [obj for namespace in self._own for obj in orphans(self._kube, namespace)]
        return [key_of(obj) for obj in found]

    def _replace(self, key: Key, obj: Obj) -> None:
        """Replace an object, again where its controller has written its status in between."""
        for tries_left in reversed(range(MAX_TRIES)):
            meta = _without(obj["metadata"], "uid", "resourceVersion")
            version = self._kube.get(*key)["metadata"]["resourceVersion"]
            try:
                self._kube.replace({**obj, "metadata": {**meta, "resourceVersion": version}})
                return
            except Conflict:
                if not tries_left:
                    raise


def _as_made(obj: Obj) -> Obj:
    """Return an object as it was once applied, so without what the cluster has added to it.

    What was never applied, or has no status, so that nothing was added, is as it was: a fault may have changed it.
    """
    applied = (obj["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    if applied is None or "status" not in obj:
        return {**_without(obj, "status"), "metadata": _without(obj["metadata"], "uid", "resourceVersion")}
    made: Obj = json.loads(applied)
    annotations = {**(made["metadata"].get("annotations") or {}), LAST_APPLIED: applied}
    return {**made, "metadata": {**made["metadata"], "annotations": annotations}}


def _without(values: Obj, *names: str) -> Obj:
    return {name: value for name, value in values.items() if name not in names}
