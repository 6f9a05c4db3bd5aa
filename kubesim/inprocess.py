"""The seam within one process: the controllers, the scheduler and the nodes call the API without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

from kubesim.acting import REVIEWS
from kubesim.api.convert import to_served
from kubesim.api.operations import Operations
from kubesim.api.options import Options
from kubesim.api.selectors import parse_fields
from kubesim.asking import answered
from kubesim.auth.reviews import answer_token_request
from kubesim.auth.tokens import TokenSigner
from kubesim.auth.users import Attributes, User
from kubesim.client import Client, EventType, ObjectList, WatchEvent, Write
from kubesim.errors import Obj
from kubesim.schema.registry import Kind
from kubesim.store import Event, Store


class InProcessClient(Client):
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

    async def write(self, write: Write) -> Obj:
        """Write, asking the webhooks that have to be asked."""
        if write.subresource == "token":
            return self._token(write)
        if write.resource == REVIEWS:
            return {**write.body, "status": {"allowed": self._allows(write.body["spec"])}}
        options = Options(user=self.user, field_manager=self.user)
        return await answered(self.operations.ask, lambda: self._attempt(write, options), options)

    def _token(self, write: Write) -> Obj:
        """Sign the token that is asked for."""
        self._signer = self._signer or TokenSigner.create()
        registry, now = self.operations.registry, self.operations.clock.now()
        return answer_token_request(self.store, registry, self._signer, now, write.namespace, write.name, write.body)

    def _allows(self, spec: Obj) -> bool:
        """Answer a review of somebody's access to a resource."""
        user = User(spec["user"], tuple(spec["groups"]))
        return self.operations.allows(user, Attributes(**spec["resourceAttributes"]))

    def _attempt(self, write: Write, options: Options) -> Obj:
        operations, kind = self.operations, self._kind(write.resource)
        space, name, part = write.namespace, write.name, write.subresource
        match write.verb:
            case "create":
                return operations.create(kind, space, write.body, name=name, subresource=part, options=options)
            case "update":
                return operations.update(kind, space, name, write.body, subresource=part, options=options)
            case "patch":
                change, way = write.body, write.patch_type
                return operations.patch(kind, space, name, change, patch_type=way, subresource=part, options=options)
            case "delete":
                return operations.delete(kind, space, name, delete_options=write.body, options=options)

    def _plain(self, resource: str) -> Kind:
        """Return a kind to read: the control plane looks at metadata, which no webhook has to convert."""
        kind = self._kind(resource)
        if kind.custom is None or kind.custom.converter is None:
            return kind
        return replace(kind, custom=kind.custom.unconverted())

    def _kind(self, resource: str) -> Kind:
        return self.operations.registry.by_resource(resource)


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
