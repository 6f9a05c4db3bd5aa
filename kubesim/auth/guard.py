"""Ends open streams as soon as their user may no longer have them: account, role or binding gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kubesim.store import Event, Store

TABLES = frozenset(
    {
        "serviceaccounts",
        "roles.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "clusterrolebindings.rbac.authorization.k8s.io",
    }
)


class Guard:
    """Knows every open stream of a cluster and what it is allowed by."""

    def __init__(self, store: Store) -> None:
        self._open: dict[asyncio.Timeout, Callable[[], bool]] = {}
        self._due = False
        store.subscribe(None, self._changed)

    @property
    def streams(self) -> int:
        """Return how many streams are open."""
        return len(self._open)

    @asynccontextmanager
    async def stream(self, still_allowed: Callable[[], bool], seconds: float | None = None) -> AsyncIterator[None]:
        """Run a stream until it ends, ``seconds`` have passed, or it is no longer allowed."""
        try:
            async with asyncio.timeout(seconds) as scope:
                self._open[scope] = still_allowed
                try:
                    yield
                finally:
                    del self._open[scope]
        except TimeoutError:
            if not scope.expired():
                raise

    def stop(self) -> None:
        """End every stream: the cluster goes away."""
        for scope in [*self._open]:
            _end(scope)

    def _changed(self, event: Event) -> None:
        """Look at the streams once the present write is done."""
        if event.kind.table in TABLES and self._open and not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._check)

    def _check(self) -> None:
        """End the streams whose user has lost the right."""
        self._due = False
        for scope, still_allowed in [*self._open.items()]:
            if not still_allowed():
                _end(scope)


def _end(scope: asyncio.Timeout) -> None:
    """Let a stream's time be up."""
    if not scope.expired():
        scope.reschedule(asyncio.get_running_loop().time())
