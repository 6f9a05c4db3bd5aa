"""The garbage collector, and the kinds that definitions add while the cluster runs, which it follows, too.

Objects whose owners are gone go as well: after their owners (Background), before them (Foreground), or not at all
(Orphan).
"""

from __future__ import annotations

from collections.abc import Callable

from kubesim.controllers.base import Context, Controller, Keeper, drop_finalizer, is_ending, latest
from kubesim.errors import Obj, tolerating
from kubesim.informer import Informer
from kubesim.schema.paths import is_true

Place = tuple[str, str]
"""Namespace and name."""
FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
Follower = Callable[[str, Informer, list[str], bool], None]
"""Takes a resource, its cache, every ``apiVersion/Kind`` that its objects may have, and whether it is namespaced."""


class GarbageCollector(Controller):
    """Follows ownerReferences over every kind in ``resources`` (resource -> its kind's name)."""

    source = "garbage-collector"

    def __init__(self, context: Context, resources: dict[str, str]) -> None:
        super().__init__(context)
        self.caches = {resource: self.informers[resource] for resource in resources}
        self._resource_of = {kind: resource for resource, kind in resources.items()}
        self._known: dict[str, Place] = {}
        """The place of every object there is, by its uid."""

    def listen(self) -> None:
        """Watch every kind."""
        for cache in self.caches.values():
            cache.add_index("owner", _owner_uids)
            self._known |= {obj["metadata"]["uid"]: _place(obj) for obj in cache.items()}
        for resource in self.caches:
            self._watch(resource)

    def follow(self, resource: str, cache: Informer, names: list[str], namespaced: bool) -> None:
        """Watch one more kind, whose objects call themselves by any of ``names``."""
        cache.add_index("owner", _owner_uids)
        self.caches[resource] = cache
        self._resource_of |= dict.fromkeys(names, resource)
        self._watch(resource)

    def _watch(self, resource: str) -> None:
        def changed(old: Obj | None, new: Obj | None) -> None:
            obj = latest(old, new)
            meta = obj["metadata"]
            if new is None:
                self._gone(meta["uid"], obj)
                return
            self._known[meta["uid"]] = _place(new)
            if meta.get("ownerReferences") or _waits_for_us(new):
                self.queue.add(self._key(resource, obj))

        self.caches[resource].add_handler(changed)

    def _gone(self, uid: str, obj: Obj) -> None:
        """Look at everything the lost object owned, and at owners that waited for it."""
        self._known.pop(uid, None)
        for resource, cache in self.caches.items():
            for dependent in cache.by("owner", uid):
                self.queue.add(self._key(resource, dependent))
        for reference in obj["metadata"].get("ownerReferences") or ():
            resource = self._resource_of.get(f"{reference['apiVersion']}/{reference['kind']}", "")
            if resource:
                namespace = obj["metadata"].get("namespace", "")
                self.queue.add(f"{resource}|{namespace}/{reference['name']}")
                self.queue.add(f"{resource}|/{reference['name']}")

    async def sync(self, namespace: str, name: str) -> None:
        """Look at one object; before its namespace stands its resource, as in every key of ours."""
        resource, _, namespace = namespace.partition("|")
        obj = self.caches[resource].get(namespace, name)
        if obj is None:
            return
        finalizers = obj["metadata"].get("finalizers") or []
        if is_ending(obj) and ORPHAN in finalizers:
            await self._orphan(resource, obj)
        elif is_ending(obj) and FOREGROUND in finalizers:
            await self._delete_dependents(resource, obj)
        elif obj["metadata"].get("ownerReferences") and not is_ending(obj):
            await self._collect(resource, obj)

    async def _collect(self, resource: str, obj: Obj) -> None:
        """Delete an object that has owners, none of which exists."""
        references = obj["metadata"]["ownerReferences"]
        known = [reference for reference in references if self._may_exist(reference, _namespace_of(obj))]
        if known:
            if len(known) < len(references):
                await _set_owners(self.caches[resource], obj, known)
            return
        finalizers = obj["metadata"].get("finalizers") or []
        policy = "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"
        await self.caches[resource].delete(obj, policy)

    def _may_exist(self, reference: Obj, namespace: str) -> bool:
        """Tell whether an owner is there, under its name: in the same namespace, or of the cluster.

        A kind that we do not follow is taken to be there.
        """
        if f"{reference['apiVersion']}/{reference['kind']}" not in self._resource_of:
            return True
        found = self._known.get(reference["uid"])
        return found is not None and found[1] == reference["name"] and (found[0] in ("", namespace) or not namespace)

    async def _orphan(self, resource: str, obj: Obj) -> None:
        uid = obj["metadata"]["uid"]
        for cache in self.caches.values():
            for dependent in cache.by("owner", uid):
                kept = [ref for ref in dependent["metadata"]["ownerReferences"] if ref["uid"] != uid]
                await _set_owners(cache, dependent, kept)
        await drop_finalizer(self.caches[resource], obj, ORPHAN)

    async def _delete_dependents(self, resource: str, obj: Obj) -> None:
        """Delete what the object owns; it goes when none is left that blocks it."""
        uid = obj["metadata"]["uid"]
        blocking = False
        for cache in self.caches.values():
            for dependent in cache.by("owner", uid):
                blocking = blocking or any(
                    ref["uid"] == uid and ref.get("blockOwnerDeletion")
                    for ref in dependent["metadata"]["ownerReferences"]
                )
                if not is_ending(dependent):
                    await cache.delete(dependent, "Foreground")
        if not blocking:
            await drop_finalizer(self.caches[resource], obj, FOREGROUND)

    @staticmethod
    def _key(resource: str, obj: Obj) -> str:
        return f"{resource}|{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


async def _set_owners(cache: Informer, obj: Obj, references: list[Obj]) -> None:
    with tolerating(404, 409):
        meta = {"uid": obj["metadata"]["uid"], "ownerReferences": references or None}
        await cache.patch(obj, {"metadata": meta})


def _place(obj: Obj) -> Place:
    return _namespace_of(obj), obj["metadata"]["name"]


def _namespace_of(obj: Obj) -> str:
    return str(obj["metadata"].get("namespace", ""))


def _waits_for_us(obj: Obj) -> bool:
    finalizers = obj["metadata"].get("finalizers") or ()
    return is_ending(obj) and (ORPHAN in finalizers or FOREGROUND in finalizers)


def _owner_uids(obj: Obj) -> list[str]:
    return [reference["uid"] for reference in obj["metadata"].get("ownerReferences") or ()]


class CustomKinds(Keeper):
    """Keeps a cache of the objects of each established definition, and tells its followers of each."""

    source = "resource-discovery"
    resource = "customresourcedefinitions.apiextensions.k8s.io"

    def __init__(self, context: Context, followers: list[Follower]) -> None:
        super().__init__(context)
        self._followers = followers
        self._followed: set[str] = set()

    async def gone(self, namespace: str, name: str) -> None:
        """Cease to follow what a definition served."""
        if name in self._followed:
            self._followed.discard(name)
            await self.informers.drop(name)

    async def look_after(self, definition: Obj) -> None:
        """Begin to follow what one definition serves."""
        name = definition["metadata"]["name"]
        if name not in self._followed and is_true(definition, "Established"):
            cache = self.informers[name]
            await cache.start()
            self._followed.add(name)
            for follow in self._followers:
                follow(name, cache, _names(definition), definition["spec"]["scope"] == "Namespaced")


def _names(definition: Obj) -> list[str]:
    spec = definition["spec"]
    versions = [version["name"] for version in spec["versions"] if version.get("served")]
    return [f"{spec['group']}/{version}/{spec['names']['kind']}" for version in versions]
