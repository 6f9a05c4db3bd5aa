"""The kinds that definitions add while the cluster runs, for those controllers that work on objects of any kind."""

from __future__ import annotations

from collections.abc import Callable

from kubesim.controllers.base import Context, Keeper
from kubesim.errors import Obj
from kubesim.informer import Informer
from kubesim.schema.paths import is_true

Follower = Callable[[str, Informer, list[str], bool], None]
"""Takes a resource, its cache, every ``apiVersion/Kind`` that its objects may have, and whether it is namespaced."""


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
