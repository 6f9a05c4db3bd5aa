"""Namespaces: what each is given at its birth, and its emptying at its end."""

from __future__ import annotations

from kubesim.controllers.base import Context, Keeper, is_ending
from kubesim.controllers.remains import Left, Remains, left_of
from kubesim.errors import Obj, tolerating
from kubesim.informer import Informer

FINALIZER = "kubernetes"
GRACE_S = 0.5
"""How long a namespace that ends is left alone, so that whoever deletes it together with what is in it, as
``kubectl delete -f`` does, still finds all of that. Upstream's namespaceDeletionGracePeriod is five seconds, for the
sake of several API servers; here is one.
"""
ROOT_CA = "kube-root-ca.crt"
ROOT_CA_KEY = "kubernetes.io/description"
ROOT_CA_NOTE = {
    ROOT_CA_KEY: "Contains a CA bundle that can be used to verify the kube-apiserver when using "
    "internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed "
    "across distributions of Kubernetes clusters."
}
UNWATCHED = ("events",)
"""Kinds whose objects go at once when they are deleted, and are too many to be remembered here."""


class NamespaceController(Keeper):
    """Empties a terminating namespace, its pods first, and lets it go when nothing is left."""

    source = "namespace-controller"
    resource = "namespaces"

    def __init__(self, context: Context, resources: list[str]) -> None:
        super().__init__(context)
        self.resources = list(resources)
        self.caches = {resource: self.informers[resource] for resource in resources if resource not in UNWATCHED}

    def listen(self) -> None:
        """Watch namespaces, and every object that may keep one from going."""
        for cache in self.caches.values():
            cache.add_index("namespace", _namespace)
            cache.add_handler(self._left)
        self.own.add_handler(self._changed)

    def follow(self, resource: str, cache: Informer, names: list[str], namespaced: bool) -> None:
        """Empty namespaces of one more kind."""
        if namespaced:
            self.resources.append(resource)
            self.caches[resource] = cache
            cache.add_handler(self._left)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None and is_ending(new) and (old is None or not is_ending(old)):
            self.queue.add_after(f"/{new['metadata']['name']}", GRACE_S)

    def _left(self, old: Obj | None, new: Obj | None) -> None:
        if new is None and old is not None:
            name = old["metadata"]["namespace"]
            namespace = self.own.get("", name)
            if namespace is not None and is_ending(namespace) and namespace["status"].get("conditions"):
                self.queue.add(f"/{name}")

    async def look_after(self, obj: Obj) -> None:
        """Delete what is in the namespace, say what is left, and finalize it once it is empty."""
        if not is_ending(obj) or not _waits(obj):
            return
        name, left = obj["metadata"]["name"], await self._empty("pods", obj)
        if left.count:
            found = Remains(
                left.failures and [f"failed to delete pods for namespace: {name}, err: {left.failures[0]}"]
            )
        else:
            found = Remains()
            for resource in [resource for resource in self.resources if resource != "pods"]:
                found.add(resource, await self._empty(resource, obj))
        obj = await self._tell(obj, found)
        if left.count or found.counts:
            self.queue.add_after(f"/{name}", (left.estimate_s or found.estimate_s) // 2 + 1)
        else:
            await self._finalize(obj)

    async def _empty(self, resource: str, namespace: Obj) -> Left:
        """Delete the objects of one resource, and return what is still there."""
        name = namespace["metadata"]["name"]
        with tolerating(404):  # a definition that has just gone
            found = (await self.client.list(resource, name)).items
            for obj in found:
                if not is_ending(obj):
                    await self.informers[resource].delete(obj)
            rest = (await self.client.list(resource, name)).items if found else []
            return left_of(resource, rest, namespace, self.clock.now())
        return Left()

    async def _tell(self, namespace: Obj, found: Remains) -> Obj:
        """Write the conditions of a namespace that goes."""
        conditions = found.conditions(namespace.get("status", {}).get("conditions") or [], self.clock.now())
        status = {**namespace.get("status", {}), "conditions": conditions}
        return await self.write_status(self.own, namespace, status)

    async def _finalize(self, obj: Obj) -> None:
        kept = [name for name in obj["spec"]["finalizers"] if name != FINALIZER]
        with tolerating(404):
            await self.client.update("namespaces", {**obj, "spec": {"finalizers": kept}}, subresource="finalize")


class ServiceAccountController(Keeper):
    """Gives every namespace the service account ``default`` and, where it is known, the cluster's CA."""

    source = "serviceaccount-controller"
    resource = "namespaces"

    def __init__(self, context: Context, root_ca: str) -> None:
        super().__init__(context)
        self._root_ca = root_ca
        self.accounts = self.informers["serviceaccounts"]
        self.config_maps = self.informers["configmaps"]

    def listen(self) -> None:
        """Watch namespaces and what they are given."""
        super().listen()
        self.accounts.add_handler(self._touched)
        self.config_maps.add_handler(self._touched)

    def _touched(self, old: Obj | None, new: Obj | None) -> None:
        if old is not None and old["metadata"]["name"] in ("default", ROOT_CA):
            self.queue.add(f"/{old['metadata']['namespace']}")

    async def look_after(self, namespace: Obj) -> None:
        """Create what is missing in a namespace, and put the cluster's CA right."""
        if is_ending(namespace):
            return
        name = namespace["metadata"]["name"]
        if self.accounts.get(name, "default") is None:
            meta = {"name": "default", "namespace": name}
            await _create(self.accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
        if self._root_ca:
            await self._publish(name)

    async def _publish(self, namespace: str) -> None:
        data, found = {"ca.crt": self._root_ca}, self.config_maps.get(namespace, ROOT_CA)
        if found is None:
            meta = {"name": ROOT_CA, "namespace": namespace, "annotations": ROOT_CA_NOTE}
            await _create(self.config_maps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
            return
        notes = found["metadata"].get("annotations") or {}
        if found.get("data") != data or not notes.get(ROOT_CA_KEY):
            meta = {**found["metadata"], "annotations": {**notes, **ROOT_CA_NOTE}}
            await self.config_maps.update({**found, "metadata": meta, "data": data})


async def _create(cache: Informer, obj: Obj) -> None:
    with tolerating(403, 404, 409):
        await cache.create(obj)


def _waits(namespace: Obj) -> bool:
    """Tell whether a namespace still waits for us."""
    return FINALIZER in (namespace.get("spec", {}).get("finalizers") or ())


def _namespace(obj: Obj) -> list[str]:
    return [obj["metadata"].get("namespace", "")]
