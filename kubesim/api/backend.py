"""The parts of a cluster that the HTTP layer needs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

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
from kubesim.forwarded import client_of
from kubesim.store import Store

if TYPE_CHECKING:
    from kubesim.nodes.practice import Nodes


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
    nodes: Nodes
    address: str
    fairness: Fairness
    cloud: Cloud

    def asker(self, request: web.Request) -> User:
        """Return who sends a request, before any impersonation. Raises 401."""
        return self.authenticator.authenticate(request.headers, self.clock.now(), client_of(request).certificate)
