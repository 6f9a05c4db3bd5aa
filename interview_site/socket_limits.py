"""Limits on WebSockets: the exact origin of the page, and how many sockets and messages one person may have.

Nothing here asks the database: whose cookie it is, the consumer learns when it looks up whether the socket may open,
together with all others that come at that time.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.conf import settings

from sessions.doors import cookie_key

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
    """Counts the sockets of each browser and of each user in this process, and each socket's messages.

    A socket counts for its cookie from the start, and for its user once the consumer has called ``claim_place`` of
    the scope with the user's primary key.
    """

    def __init__(self, app: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._clock = clock
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        taken: list[str] = []
        if not self._take(f"browser {cookie_key(scope['headers'])}", taken):
            await _deny(receive, send)
            return
        claim = partial(self._claim, taken)
        try:
            await self._app({**scope, "claim_place": claim}, _Counted(receive, send, self._clock), send)
        finally:
            self._open.subtract(taken)
            for whose in taken:
                if not self._open[whose]:
                    del self._open[whose]

    def _claim(self, taken: list[str], user: int) -> bool:
        """Take a place for a user; False where all of them are taken."""
        return self._take(f"user {user}", taken)

    def _take(self, whose: str, taken: list[str]) -> bool:
        if self._open[whose] >= MAX_SOCKETS:
            return False
        self._open[whose] += 1
        taken.append(whose)
        return True


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


async def no_such_socket(scope: Any, receive: Any, send: Any) -> None:
    """Refuse an address that is none of ours; the router of channels would raise."""
    await _deny(receive, send)


async def _deny(receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1008})
