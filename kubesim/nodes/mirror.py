"""What the simulated network reads, kept by watches: a packet costs no request, as with kube-proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from kubesim.api.selectors import parse_labels
from kubesim.client import Client, ObjectList, WatchEvent
from kubesim.clock import Clock
from kubesim.errors import Obj
from kubesim.informer import Informer

KEPT = frozenset(
    {
        "services",
        "endpoints",
        "namespaces",
        "nodes",
        "pods",
        "endpointslices.discovery.k8s.io",
        "networkpolicies.networking.k8s.io",
    }
)


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
