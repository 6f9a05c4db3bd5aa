"""A node's two users behind one seam: its kubelet, and what reads the network for it, kept by watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from kubesim.api.selectors import parse_labels
from kubesim.client import Client, ObjectList, Reader, WatchEvent, Write
from kubesim.clock import Clock
from kubesim.errors import Obj
from kubesim.informer import Informer

SHARED = frozenset({"pods", "nodes"})
"""A kubelet reads its own of these, by a field selector; the network reads them all."""
FOLLOWED = frozenset(
    ("services", "endpoints", "namespaces", "endpointslices.discovery.k8s.io", "networkpolicies.networking.k8s.io")
)
NETWORK = FOLLOWED | {"ingresses.networking.k8s.io", "ingressclasses.networking.k8s.io"}
KEPT = FOLLOWED | SHARED


class Mirror:
    """The reading verbs of ``client.Client``; resources of ``KEPT`` come from caches, begun when first asked for."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._informers: dict[str, Informer] = {}
        self._starting = asyncio.Lock()

    async def stop(self) -> None:
        """Follow nothing any more."""
        for informer in self._informers.values():
            await informer.stop()

    async def get(self, resource: str, name: str, namespace: str = "") -> Obj:
        """Return one object."""
        if resource not in KEPT:
            return await self._client.get(resource, name, namespace)
        return (await self._informer(resource)).found(namespace, name)

    async def list(
        self, resource: str, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        """Return all objects of a resource; the version of what is cached is not told."""
        if resource not in KEPT or field_selector:
            return await self._client.list(
                resource, namespace, label_selector=label_selector, field_selector=field_selector
            )
        chosen = parse_labels(label_selector)
        cached = (await self._informer(resource)).items()
        items = [
            item
            for item in cached
            if namespace in ("", item["metadata"].get("namespace"))
            and chosen.matches(item["metadata"].get("labels") or {})
        ]
        return ObjectList(items, "")

    def watch(
        self, resource: str, namespace: str = "", *, field_selector: str = "", resource_version: str = ""
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield every change, from the API itself."""
        return self._client.watch(
            resource, namespace, field_selector=field_selector, resource_version=resource_version
        )

    async def _informer(self, resource: str) -> Informer:
        async with self._starting:
            if resource not in self._informers:
                informer = Informer(self._client, self._clock, resource)
                await informer.start()
                self._informers[resource] = informer
        return self._informers[resource]


class SplitClient(Client):
    """``client.Client`` that reads with the network's rights what only the network may, and else is the node's."""

    def __init__(self, node: Client, network: Reader, account: Callable[[Client, Obj], Client]) -> None:
        """``account`` makes the client of a pod's account, with tokens that the node asks for."""
        self._node = node
        self._network = network
        self._account = account

    async def get(self, resource: str, name: str, namespace: str = "") -> Obj:
        """Return one object."""
        reader: Reader = self._network if resource in NETWORK or resource == "pods" else self._node
        return await reader.get(resource, name, namespace)

    async def list(
        self, resource: str, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        """Return all objects of a resource."""
        reader = self._reader(resource, field_selector)
        return await reader.list(resource, namespace, label_selector=label_selector, field_selector=field_selector)

    def watch(
        self, resource: str, namespace: str = "", *, field_selector: str = "", resource_version: str = ""
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield every change."""
        reader = self._reader(resource, field_selector)
        return reader.watch(resource, namespace, field_selector=field_selector, resource_version=resource_version)

    async def write(self, write: Write) -> Obj:
        """Write as the node."""
        return await self._node.write(write)

    def as_account(self, pod: Obj) -> Client:
        """Return the API with tokens of the pod's account: a node may ask little of others for it."""
        return self._account(self._node, pod)

    def _reader(self, resource: str, field_selector: str) -> Reader:
        wide = resource in NETWORK or (resource in SHARED and not field_selector)
        return self._network if wide else self._node
