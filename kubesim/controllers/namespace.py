"""Namespaces: what each is given at its birth, and its emptying at its end."""

from __future__ import annotations

from kubesim.controllers.base import Context, Controller, delete_if_there, is_ending
from kubesim.errors import ApiError, Obj

ROOT_CA = "kube-root-ca.crt"
ROOT_CA_NOTE = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using "
    "internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed "
    "across distributions of Kubernetes clusters."
}


class NamespaceController(Controller):
    """Empties a terminating namespace and lets it go when nothing is left."""

    source = "namespace-controller"

    def __init__(self, context: Context, resources: list[str]) -> None:
        super().__init__(context)
        self.namespaces = self.informers["namespaces"]
        self.caches = {resource: self.informers[resource] for resource in resources}

    def listen(self) -> None:
        """Watch namespaces, and every object that may keep one from going."""
        for cache in self.caches.values():
            cache.add_index("namespace", _namespace)
            cache.add_handler(self._left)
        self.namespaces.add_handler(self._changed)

    def _changed(self, old: Obj | None, new: Obj | None) -> None:
        if new is not None and is_ending(new):
            self.queue.add(f"/{new['metadata']['name']}")

    def _left(self, old: Obj | None, new: Obj | None) -> None:
        if new is None and old is not None:
            name = old["metadata"]["namespace"]
            namespace = self.namespaces.get("", name)
            if namespace is not None and is_ending(namespace):
                self.queue.add(f"/{name}")

    async def sync(self, namespace: str, name: str) -> None:
        """Delete what is in the namespace, and finalize it once it is empty."""
        obj = self.namespaces.get("", name)
        if obj is None or not is_ending(obj):
            return
        left = 0
        for resource in self.caches:
            left += await self._empty(resource, name)
        if left == 0 and obj.get("spec", {}).get("finalizers"):
            await self._finalize(obj)

    async def _empty(self, resource: str, name: str) -> int:
        """Delete the objects of one resource; returns how many are still there."""
        found = await self.client.list(resource, name)
        for obj in found.items:
            if not is_ending(obj):
                await delete_if_there(self, resource, obj)
        return len((await self.client.list(resource, name)).items) if found.items else 0

    async def _finalize(self, obj: Obj) -> None:
        try:
            await self.client.update("namespaces", {**obj, "spec": {"finalizers": []}}, subresource="finalize")
        except ApiError as error:
            if error.code != 404:
                raise


class ServiceAccountController(Controller):
    """Gives every namespace the service account ``default`` and, where it is known, the cluster's CA."""

    source = "serviceaccount-controller"

    def __init__(self, context: Context, root_ca: str) -> None:
        super().__init__(context)
        self._root_ca = root_ca
        self.namespaces = self.informers["namespaces"]
        self.accounts = self.informers["serviceaccounts"]
        self.config_maps = self.informers["configmaps"]

    def listen(self) -> None:
        """Watch namespaces and what they are given."""
        self.watch_own(self.namespaces)
        self.accounts.add_handler(self._lost)
        self.config_maps.add_handler(self._lost)

    def _lost(self, old: Obj | None, new: Obj | None) -> None:
        if new is None and old is not None and old["metadata"]["name"] in ("default", ROOT_CA):
            self.queue.add(f"/{old['metadata']['namespace']}")

    async def sync(self, namespace: str, name: str) -> None:
        """Create what is missing in a namespace."""
        obj = self.namespaces.get("", name)
        if obj is None or is_ending(obj):
            return
        if self.accounts.get(name, "default") is None:
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
            await self._create("serviceaccounts", name, account)
        if self._root_ca and self.config_maps.get(name, ROOT_CA) is None:
            meta = {"name": ROOT_CA, "annotations": ROOT_CA_NOTE}
            data = {"ca.crt": self._root_ca}
            bundle = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
            await self._create("configmaps", name, bundle)

    async def _create(self, resource: str, namespace: str, obj: Obj) -> None:
        try:
            self.informers[resource].note(await self.client.create(resource, obj, namespace=namespace), created=True)
        except ApiError as error:
            if error.code not in (403, 404, 409):
                raise


def _namespace(obj: Obj) -> list[str]:
    return [obj["metadata"].get("namespace", "")]
