"""The processes of an installation on one machine: one list, used by ``up`` and by the tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from django.conf import settings

from interview_site import redis_server
from interview_site.commands import Command

PYTHON = (sys.executable, "-W", "ignore")  # warnings are for developers: the tests fail on them


def commands() -> Iterator[Command]:
    """Yield every process of this installation."""
    if settings.OWN_REDIS:
        yield Command("redis", _redis())
    if settings.OWN_KUBESIM:
        yield Command("kubesim", _kubesim())
    yield Command("web", _web(), forked=True)
    yield Command("worker", _manage("work"), forked=True)
    yield Command("observer", _manage("observe"), forked=True)


def readiness(since: float) -> list[str]:
    """Return the command that waits until all is ready, and says so; ``since`` is a time of the steady clock."""
    return _manage("announce", "--since", str(since))


def _manage(*args: str) -> list[str]:
    return [*PYTHON, str(settings.BASE_DIR / "manage.py"), *args]


def _redis() -> list[str]:
    server = redis_server.find()
    assert server is not None  # preflight has found one
    return redis_server.command(server, settings.RUN_DIR / "redis.sock", settings.RUN_DIR)


def _kubesim() -> list[str]:
    return [
        *PYTHON,
        *("-m", "kubesim", "host"),
        *("--bind", settings.BIND),
        *("--port", str(settings.KUBESIM_PORT)),
        *("--public-host", settings.PUBLIC_HOST),
        *("--data", str(settings.KUBESIM_DIR)),
    ]


def _web() -> list[str]:
    return [
        *PYTHON,
        *("-m", "uvicorn", "interview_site.asgi:application"),
        *("--host", settings.BIND),
        *("--port", str(settings.PORT)),
        *("--http", "interview_site.http_protocol:LimitedHttpProtocol"),
        *("--ws", "interview_site.websocket_protocol:SharedFrameProtocol"),
        *("--ws-per-message-deflate", "false"),  # it would compress each frame anew for each browser
        "--no-server-header",
        "--no-proxy-headers",  # interview_site.proxies believes those that the settings name
        *("--log-level", "warning"),
        *("--timeout-graceful-shutdown", "2"),
        *("--lifespan", "off"),
        *("--ws-max-size", str(64 * 1024)),  # the browser sends nothing; a frame may not fill the memory
    ]
