"""The seam: seven verbs through which the nodes' half, the scheduler and the controllers reach the API.

Two adapters speak it: ``InProcessClient`` on a practice cluster, and one over HTTP for nodes that join another.
Resources are named as kubectl names them: ``pods``, ``jobs.batch``, ``deployments.apps``.
Objects that come back are shared and must not be changed: copy what you edit.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Literal, Protocol

from kubesim.errors import Obj

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
PatchType = Literal["json", "merge", "strategic"]
PatchBody = Obj | list[Obj]


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


class Client(Reader, Protocol):
    """A Kubernetes client of seven verbs. Every verb raises ``ApiError`` as the API answers it."""

    async def create(self, resource: str, obj: Obj, *, namespace: str = "", subresource: str = "") -> Obj:
        """Create an object (or post to a subresource such as ``binding`` or ``eviction``) and return the answer."""

    async def update(self, resource: str, obj: Obj, *, subresource: str = "") -> Obj:
        """Replace an object or its status; a resourceVersion inside makes it conditional (409 Conflict)."""

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
