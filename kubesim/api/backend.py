"""The parts of a cluster that the HTTP layer needs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from aiohttp import web

from kubesim.api.fairness import Fairness
from kubesim.api.operations import Operations
from kubesim.auth.authn import Authenticator
from kubesim.auth.guard import Guard
from kubesim.auth.rbac import Authorizer
from kubesim.auth.reviews import Reviewer
from kubesim.auth.tokens import TokenSigner
from kubesim.auth.users import User
from kubesim.clock import Clock
from kubesim.cloud.api import Cloud
from kubesim.errors import Obj
from kubesim.forwarded import client_of
from kubesim.network.fabric import Fabric
from kubesim.store import Store
from kubesim.streaming.remote import Wanted
from kubesim.streaming.seam import Forward, Run


@dataclass(frozen=True, slots=True)
class LogRequest:
    """The lines of a container's log that a client wants."""

    namespace: str
    pod: str
    container: str
    previous: bool = False
    follow: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: datetime | None = None


class NodeAccess(Protocol):
    """The nodes as the API server reaches them: logs and containers by their kubelets, and whatever listens.

    What reaches a container raises ``Refused``, ``Unreached`` and ``ApiError``.
    """

    fabric: Fabric

    def read(self, pod: Obj, wanted: LogRequest) -> AsyncGenerator[bytes, None]:
        """Yield a log in pieces; with ``follow`` until the container ends. Raises ``ApiError``."""

    def check(self, pod: Obj) -> None:
        """Raise ``ApiError`` where nobody knows the way to a pod's node."""

    def exec(self, pod: Obj, container: str, command: Sequence[str], wanted: Wanted) -> Run:
        """Return what runs a command beside the container's own process."""

    def attach(self, pod: Obj, container: str, wanted: Wanted) -> Run:
        """Return what joins the container's own process."""

    def forward(self, pod: Obj) -> Forward:
        """Return what reaches the pod's ports."""


@dataclass(frozen=True, slots=True)
class Backend:
    """One cluster's parts, as the API server uses them."""

    store: Store
    operations: Operations
    clock: Clock
    authenticator: Authenticator
    authorizer: Authorizer
    reviewer: Reviewer
    signer: TokenSigner
    guard: Guard
    nodes: NodeAccess
    address: str
    fairness: Fairness
    cloud: Cloud

    def asker(self, request: web.Request) -> User:
        """Return who sends a request, before any impersonation. Raises 401."""
        return self.authenticator.authenticate(request.headers, self.clock.now(), client_of(request).certificate)
