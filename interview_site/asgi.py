"""The ASGI entry point: pages over HTTP, live panels over WebSocket."""

import os
from functools import cache
from typing import Any

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "interview_site.settings")
pages = get_asgi_application()

from sessions import access_enforcer  # noqa: E402 - needs the app registry
from sessions.routing import websocket_urlpatterns  # noqa: E402 - needs the app registry

stand_by = cache(access_enforcer.stand_by)


async def http(scope: Any, receive: Any, send: Any) -> None:
    """Answer a request. The first one, which ``up`` sends, starts this process' access enforcer."""
    stand_by()
    await pages(scope, receive, send)


application = ProtocolTypeRouter(
    {
        "http": http,
        "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)
