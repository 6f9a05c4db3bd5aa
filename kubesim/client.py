"""The seam: seven verbs through which the nodes' half, the scheduler and the controllers reach the API.

Two adapters speak it: ``InProcessClient`` on a practice cluster, and one over HTTP for nodes that join another.
Resources are named as kubectl names them: ``pods``, ``jobs.batch``, ``deployments.apps``.
Objects that come back are shared and must not be changed: copy what you edit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from kubesim.errors import Obj

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
PatchType = Literal["json", "merge", "strategic"]
PatchBody = Obj | list[Obj]
Verb = Literal["create", "update", "patch", "delete"]


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change: its type and the object after it (for DELETED: the last state)."""

    type: EventType
    object: Obj


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A list and the resourceVersion from which a watch continues it."""

    items: list[Obj]
    resource_version: str


@dataclass(frozen=True, slots=True)
class Write:
    """What every verb that writes comes down to; the body of a deletion is its DeleteOptions."""

    verb: Verb
    resource: str
    namespace: str
    name: str
    """Empty for an object that is to be created."""
    body: Any
    subresource: str = ""
    patch_type: PatchType = "merge"


class Reader(Protocol):
    """The three verbs that read. Every verb raises ``ApiError`` as the API answers it."""

    async def get(self, resource: str, name: str, namespace: str = "") -> Obj:
        """Return one object."""

    async def list(
        self, resource: str, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        """Return all objects of a resource; an empty namespace means every namespace."""

    def watch(
        self, resource: str, namespace: str = "", *, field_selector: str = "", resource_version: str = ""
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield every change after ``resource_version``; close the iterator to stop."""


class Client(Reader, ABC):
    """A Kubernetes client of seven verbs. Every verb raises ``ApiError`` as the API answers it.

    An adapter brings those that read, and ``write``.
    """

    @abstractmethod
    async def write(self, write: Write) -> Obj:
        """Send what a verb comes down to, and return the answer."""

    def as_account(self, pod: Obj) -> Client | None:
        """Return the API as a pod's account has it; None where this client is trusted to ask what that may do."""
        return None

    async def create(self, resource: str, obj: Obj, *, namespace: str = "", subresource: str = "") -> Obj:
        """Create an object (or post to a subresource such as ``binding`` or ``eviction``) and return the answer."""
        metadata = obj.get("metadata") or {}
        space, name = namespace or metadata.get("namespace", ""), metadata.get("name", "") if subresource else ""
        return await self.write(Write("create", resource, space, name, obj, subresource))

    async def update(self, resource: str, obj: Obj, *, subresource: str = "") -> Obj:
        """Replace an object or its status; a resourceVersion inside makes it conditional (409 Conflict)."""
        space, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        return await self.write(Write("update", resource, space, name, obj, subresource))

    async def patch(
        self,
        resource: str,
        name: str,
        namespace: str,
        patch: PatchBody,
        *,
        patch_type: PatchType = "merge",
        subresource: str = "",
    ) -> Obj:
        """Change some fields and return the result."""
        return await self.write(Write("patch", resource, namespace, name, patch, subresource, patch_type))

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
        options: Obj = {}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if uid:
            options["preconditions"] = {"uid": uid}
        if propagation:
            options["propagationPolicy"] = propagation
        return await self.write(Write("delete", resource, namespace, name, options))
