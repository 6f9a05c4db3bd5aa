"""The seam within one process: the controllers, the scheduler and the nodes call the API without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

from kubesim.api.convert import to_served
from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.api.selectors import parse_fields
from kubesim.asking import answered
from kubesim.auth import tokenrequests
from kubesim.auth.tokens import TokenSigner
from kubesim.client import EventType, ObjectList, PatchType, WatchEvent
from kubesim.errors import Obj
from kubesim.schema.registry import Kind
from kubesim.store import Event, Store


class InProcessClient:
    """``client.Client`` over the operations of the same process, as ``user`` (the field manager of its writes)."""

    def __init__(
        self,
        operations: Operations,
        store: Store,
        user: str = "kube-controller-manager",
        signer: TokenSigner | None = None,
    ) -> None:
        """``signer`` signs the tokens that are asked for; without one, a signer of our own."""
        self.operations = operations
        self.store = store
        self.user = user
        self._signer = signer

    async def get(self, resource: str, name: str, namespace: str = "") -> Obj:
        """Return one object."""
        return self.operations.get(self._plain(resource), namespace, name)

    async def list(
        self, resource: str, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        """Return all objects of a resource; an empty namespace means every namespace."""
        return self.operations.list(
            self._plain(resource), namespace, label_selector=label_selector, field_selector=field_selector
        )

    async def watch(
        self, resource: str, namespace: str = "", *, field_selector: str = "", resource_version: str = ""
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield every change after ``resource_version``; without one, every object first."""
        kind = self._plain(resource)
        selector = parse_fields(field_selector, kind)
        queue: asyncio.Queue[Event] = asyncio.Queue()
        if resource_version in ("", "0"):
            first = self.operations.list(kind, namespace, field_selector=field_selector)
            start, missed = [WatchEvent("ADDED", obj) for obj in first.items], []
        else:
            start, missed = [], self.store.events_since(int(resource_version), kind)
        stop = self.store.subscribe(kind, queue.put_nowait)
        try:
            for added in start:
                yield added
            for event in missed:
                if seen := _seen(event, kind, namespace, selector.selects):
                    yield seen
            while True:
                if seen := _seen(await queue.get(), kind, namespace, selector.selects):
                    yield seen
        finally:
            stop()

    async def create(self, resource: str, obj: Obj, *, namespace: str = "", subresource: str = "") -> Obj:
        """Create an object, or post to a subresource of the object that ``obj`` names."""
        metadata = obj.get("metadata") or {}
        if subresource == "token":
            self._signer = self._signer or TokenSigner.create()
            now, name = self.operations.clock.now(), metadata.get("name", "")
            return tokenrequests.answer(self.store, self.operations.registry, self._signer, now, namespace, name, obj)
        space, name = namespace or metadata.get("namespace", ""), metadata.get("name", "") if subresource else ""
        return await self._write(
            lambda options: self.operations.create(
                self._kind(resource), space, obj, name=name, subresource=subresource, options=options
            )
        )

    async def update(self, resource: str, obj: Obj, *, subresource: str = "") -> Obj:
        """Replace an object or its status."""
        space, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        return await self._write(
            lambda options: self.operations.update(
                self._kind(resource), space, name, obj, subresource=subresource, options=options
            )
        )

    async def patch(
        self,
        resource: str,
        name: str,
        namespace: str,
        patch: Obj | list[Obj],  # type: ignore[valid-type]
        *,
        patch_type: PatchType = "merge",
        subresource: str = "",
    ) -> Obj:
        """Change some fields and return the result."""
        return await self._write(
            lambda options: self.operations.patch(
                self._kind(resource),
                namespace,
                name,
                patch,
                patch_type=patch_type,
                subresource=subresource,
                options=options,
            )
        )

    async def delete(
        self,
        resource: str,
        name: str,
        namespace: str = "",
        *,
        grace_seconds: int | None = None,
        uid: str = "",
        propagation: str = "",
    ) -> Obj:
        """Delete an object, gracefully where its kind has a grace period."""
        wanted: Obj = {}
        if grace_seconds is not None:
            wanted["gracePeriodSeconds"] = grace_seconds
        if uid:
            wanted["preconditions"] = {"uid": uid}
        if propagation:
            wanted["propagationPolicy"] = propagation
        return await self._write(
            lambda options: self.operations.delete(
                self._kind(resource), namespace, name, delete_options=wanted, options=options
            )
        )

    async def _write(self, write: Callable[[Options], Obj]) -> Obj:
        """Write, asking the webhooks that have to be asked."""
        options = self._options()
        return await answered(self.operations.ask, lambda: write(options), options)

    def _plain(self, resource: str) -> Kind:
        """Return a kind to read: the control plane looks at metadata, which no webhook has to convert."""
        kind = self._kind(resource)
        if kind.custom is None or kind.custom.converter is None:
            return kind
        return replace(kind, custom=kind.custom.unconverted())

    def _kind(self, resource: str) -> Kind:
        return self.operations.registry.by_resource(resource)

    def _options(self) -> Options:
        return Options(user=self.user, field_manager=self.user)


def _seen(event: Event, kind: Kind, namespace: str, selects: Callable[[Obj], bool]) -> WatchEvent | None:
    """Return a change as a watch with a selector sees it: leaving the selection is DELETED, entering it ADDED."""
    if namespace and event.object["metadata"].get("namespace") != namespace:
        return None
    before = event.previous is not None and selects(event.previous)
    after = event.type != "DELETED" and selects(event.object)
    if not before and not after:
        return None
    change: EventType = "MODIFIED" if before and after else "ADDED" if after else "DELETED"
    return WatchEvent(change, to_served(kind, event.object))
