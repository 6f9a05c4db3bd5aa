"""Limits on requests in front of Django: the size and the time of a body, and the number of requests at once.

Django reads a whole body before any view, middleware or permission is asked, and writes what is large to the disk. So
a body is read here: refused at once by its declared length, counted while it comes, with a deadline. Only then the
application starts to work, in one of a limited number of threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http.cookies import CookieError, SimpleCookie
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.db import DatabaseError

from sessions.selectors import CANDIDATE_KEY

MAX_STRANGERS_BODY = 64 * 1024
MAX_SIGN_IN_BODY = 16 * 1024
MAX_BODY = 2 * 1024 * 1024
MAX_UPLOAD = settings.FILE_UPLOAD_MAX_MEMORY_SIZE  # so that no part of a body is ever written to the disk
SIGN_IN_PATHS = ("/login", "/logout", "/join/", "/admin/login")
UPLOAD_PATHS = ("/admin/",)
BODY_S = 10.0
MIN_BODY_RATE = 16 * 1024  # bytes a second, on top of BODY_S
LINGER_S = 2.0  # a client that still sends hears why it was refused
MAX_LINGER_BYTES = 16 * 1024 * 1024
MAX_REQUESTS = 100
MAX_SIGN_INS = 4  # each hashes a password: 16 MB and a twentieth of a second of a core
MAX_QUEUED = 400
QUEUE_S = 10.0
RETRY_S = 5
PROBES = ("/healthz", "/readyz")

_REASONS = {
    400: "The request's length makes no sense.",
    408: "The request did not arrive in time. Try again.",
    413: "The request is larger than this page takes. Nothing was saved.",
    503: "Too many requests at once. Nothing was saved; try again in a moment.",
}


class _Refusal(Exception):
    """A request that the application does not get to see."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _Disconnected(Exception):
    """The client left before its request was complete."""


class Gate:
    """At most so many at once; the others wait for their turn, and not for ever."""

    def __init__(self, count: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._queued = 0

    async def __aenter__(self) -> None:
        if self._free.locked() and self._queued >= MAX_QUEUED:
            raise _Refusal(503)
        self._queued += 1
        try:
            async with asyncio.timeout(QUEUE_S):
                await self._free.acquire()
        except TimeoutError:
            raise _Refusal(503) from None
        finally:
            self._queued -= 1

    async def __aexit__(self, *exc: object) -> None:
        self._free.release()


class RequestLimits:
    """An ASGI application around another: only whole requests of a fitting size get through."""

    def __init__(self, app: Callable[[Any, Any, Any], Awaitable[None]], max_requests: int = MAX_REQUESTS) -> None:
        self._app = app
        self._gate = Gate(max_requests)
        self._sign_ins = Gate(MAX_SIGN_INS)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            body = await _read(scope, receive)
            await self._pass_on(scope, _replay(body, receive), send)
        except _Refusal as refusal:
            await _refuse(refusal.status, receive, send)
        except _Disconnected:
            return

    async def _pass_on(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] in PROBES:
            await self._app(scope, receive, send)
        elif scope["method"] == "POST" and scope["path"].startswith("/login"):
            async with self._sign_ins:
                await self._app(scope, receive, send)
        else:
            async with self._gate:
                await self._app(scope, receive, send)


async def _read(scope: Any, receive: Any) -> bytes:
    """Return the body. Raises ``_Refusal`` where it is too large or too slow."""
    headers = dict(scope["headers"])
    if b"content-length" not in headers and b"transfer-encoding" not in headers:
        return b""
    declared = _declared(headers.get(b"content-length", b"0"))
    limit = await _limit(scope, declared)
    try:
        async with asyncio.timeout(BODY_S + (declared or limit) / MIN_BODY_RATE):
            return await _collect(scope, receive, limit)
    except TimeoutError:
        raise _Refusal(408) from None


def _declared(length: bytes) -> int:
    if not length.isdigit() or len(length) > 15:
        raise _Refusal(400)
    return int(length)


async def _limit(scope: Any, size: int) -> int:
    """Return how large the body may be. Raises ``_Refusal`` where ``size`` is larger.

    Only who has signed in or joined may send more than a stranger; the cookie is looked up where it matters.
    """
    path: str = scope["path"]
    if path.startswith(SIGN_IN_PATHS):
        limit = MAX_SIGN_IN_BODY
    elif size <= MAX_STRANGERS_BODY:
        return MAX_STRANGERS_BODY
    elif size <= MAX_UPLOAD and await _is_known(scope):
        limit = MAX_UPLOAD if path.startswith(UPLOAD_PATHS) else MAX_BODY
    else:
        limit = MAX_STRANGERS_BODY
    if size > limit:
        raise _Refusal(413)
    return limit


async def _collect(scope: Any, receive: Any, limit: int) -> bytes:
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Disconnected
        size += len(message.get("body", b""))
        if size > limit:
            limit = await _limit(scope, size)
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _replay(body: bytes, receive: Any) -> Any:
    """Return a ``receive`` that hands out the whole body once, and then what comes."""
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Any:
        if left:
            return left.pop()
        message = await receive()
        while message["type"] == "http.request":  # the empty one of a request without a body
            message = await receive()
        return message

    return replayed


async def _is_known(scope: Any) -> bool:
    cookies = b"; ".join(value for name, value in scope["headers"] if name == b"cookie")
    try:
        morsel = SimpleCookie(cookies.decode("latin-1")).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return False
    if morsel is None:
        return False
    try:
        return await database_sync_to_async(_opens)(morsel.value)
    except DatabaseError:
        return False


def _opens(session_key: str) -> bool:
    store = SessionStore(session_key)
    return SESSION_KEY in store or CANDIDATE_KEY in store


async def _refuse(status: int, receive: Any, send: Any) -> None:
    """Answer in one sentence, and close the connection; who still sends has a moment to read it."""
    text = _REASONS[status].encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(text)).encode()),
        (b"cache-control", b"no-store"),
        (b"connection", b"close"),
    ]
    if status == 503:
        headers.append((b"retry-after", str(RETRY_S).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text, "more_body": True})
    if status in (408, 413):
        await _drain(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _drain(receive: Any) -> None:
    """Read on for a moment: closing at once would reset the connection, and the answer would be lost."""
    size = 0
    try:
        async with asyncio.timeout(LINGER_S):
            while size < MAX_LINGER_BYTES:
                message = await receive()
                size += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return
