"""Limits on WebSockets: the exact origin of the page, and how many sockets and messages one person may have."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from django.conf import settings

MAX_SOCKETS = 8
MAX_MESSAGES = 50  # a second; our pages send none
REFUSED = 4429
DISCONNECT = {"type": "websocket.disconnect", "code": REFUSED}


class ExactOrigins:
    """Refuses a handshake from a page that is not ours, or that does not say where it comes from.

    Browsers write an origin in one way only (RFC 6454): lower case, without the scheme's default port, or ``null``.
    So it is compared as text. The validator of channels parses it: a port of six digits raises, a path is ignored.
    """

    def __init__(self, app: Any, origins: Sequence[str] | None = None) -> None:
        self._app = app
        self._origins = {each.encode() for each in (settings.ORIGINS if origins is None else origins)}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        given = [value for name, value in scope["headers"] if name == b"origin"]
        if len(given) == 1 and given[0] in self._origins:
            await self._app(scope, receive, send)
        else:
            await _deny(receive, send)


class SocketLimits:
    """Counts the sockets of each person in this process, and each socket's messages."""

    def __init__(self, app: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._clock = clock
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        whose = _whose(scope)
        if self._open[whose] >= MAX_SOCKETS:
            await _deny(receive, send)
            return
        self._open[whose] += 1
        try:
            await self._app(scope, _Counted(receive, send, self._clock), send)
        finally:
            self._open[whose] -= 1
            if not self._open[whose]:
                del self._open[whose]


class _Counted:
    """A ``receive`` that ends a socket which sends more than ``MAX_MESSAGES`` in a second."""

    def __init__(self, receive: Any, send: Any, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._receive = receive
        self._send = send
        self._times: deque[float] = deque(maxlen=MAX_MESSAGES)

    async def __call__(self) -> Any:
        message = await self._receive()
        if message["type"] != "websocket.receive":
            return message
        now = self._clock()
        if len(self._times) == MAX_MESSAGES and now - self._times[0] < 1:
            await self._send({"type": "websocket.close", "code": REFUSED})
            return DISCONNECT
        self._times.append(now)
        return message


def _whose(scope: Any) -> str:
    """Return whom a socket counts for: the user, or the browser that joined, or everybody without a cookie."""
    user = scope.get("user")
    if user is not None and user.is_authenticated:
        return f"user {user.pk}"
    return f"browser {scope['session'].session_key or ''}"


async def no_such_socket(scope: Any, receive: Any, send: Any) -> None:
    """Refuse an address that is none of ours; the router of channels would raise."""
    await _deny(receive, send)


async def _deny(receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1008})
