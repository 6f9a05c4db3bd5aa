"""The ASGI entry point: pages over HTTP, live panels over WebSocket."""

import os
from functools import cache
from typing import Any, cast

from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application
from django.urls import re_path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "interview_site.settings")
pages = get_asgi_application()

# These need the app registry.
from interview_site.proxies import TrustedProxies  # noqa: E402
from interview_site.request_limits import RequestLimits  # noqa: E402
from interview_site.socket_limits import ExactOrigins, SocketLimits, no_such_socket  # noqa: E402
from sessions import access_enforcer, live  # noqa: E402
from sessions.routing import websocket_urlpatterns  # noqa: E402


@cache
def begin() -> None:
    """Make this process ready: its threads take turns promptly, and its access enforcer stands by."""
    live.switch_threads_promptly()
    access_enforcer.stand_by()


async def http(scope: Any, receive: Any, send: Any) -> None:
    """Answer a request. The first one, which ``up`` sends, starts what this process does by itself."""
    begin()
    await pages(scope, receive, send)


sockets = [*websocket_urlpatterns, re_path("", cast(Any, no_such_socket))]
application = TrustedProxies(
    ProtocolTypeRouter(
        {
            "http": RequestLimits(http),
            "websocket": ExactOrigins(SocketLimits(URLRouter(sockets))),
        }
    )
)
