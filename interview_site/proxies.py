"""Client addresses and schemes behind reverse proxies.

A header that anybody can send proves nothing, wherever it comes from: X-Forwarded-For and X-Forwarded-Proto count
only from an address in ``TRUSTED_PROXIES``. Otherwise the client is the peer of the connection, and the scheme is the
one that the deployment was configured with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.conf import settings
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

_SECURE = {"http": "https", "ws": "wss"}


class TrustedProxies:
    """Sets the scope's client and scheme before the application sees it."""

    def __init__(self, app: Any, proxies: Sequence[str] | None = None, scheme: str | None = None) -> None:
        self._app = app
        self._scheme = settings.PUBLIC_SCHEME if scheme is None else scheme
        self._forwarded = ProxyHeadersMiddleware(app, list(settings.TRUSTED_PROXIES if proxies is None else proxies))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._scheme == "https" and scope.get("scheme") in _SECURE:
            scope["scheme"] = _SECURE[scope["scheme"]]
        await self._forwarded(scope, receive, send)


def is_proxy() -> Callable[[str], bool]:
    """Return a function that tells our proxies' addresses: many clients may share one of them."""
    return ProxyHeadersMiddleware(_nothing, list(settings.TRUSTED_PROXIES)).trusted_hosts.__contains__


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    """Answer nothing: only the list of proxies is wanted."""
