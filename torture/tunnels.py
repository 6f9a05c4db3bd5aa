"""WebSockets through the API proxy: forwarded ports, whose HTTP requests may be held, and commands."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Protocol

import aiohttp
from aiohttp import web

from torture.held_calls import HeldCall

MAX_MESSAGE = 16 << 20
PORT_BYTES = 2
DATA = b"\0"
REQUEST = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (\S+) HTTP/1\.1\r\n")
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
ANSWER_S = 10.0
REFUSAL = b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Gate(Protocol):
    """The proxy, as far as it decides about requests."""

    held: HeldCall
    refused: str


class Tunnel:
    """One WebSocket between a client and the cluster."""

    def __init__(self, near: web.WebSocketResponse, far: aiohttp.ClientWebSocketResponse, gate: Gate) -> None:
        self._near, self._far, self._gate = near, far, gate
        self._back: HeldCall | None = None
        self._opened, self._answered = asyncio.Event(), asyncio.Event()
        self._is_held = False

    async def carry(self, *, has_requests: bool) -> None:
        """Carry messages both ways until one side ends; what was held arrives though its sender has died."""
        back = asyncio.create_task(self._carry_back())
        there = asyncio.create_task(self._carry_there(has_requests))
        await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
        if self._is_held and not there.done():
            await there
        if self._is_held and there.done() and there.result():
            await asyncio.wait((asyncio.create_task(self._answered.wait()), back), timeout=ANSWER_S)
        for task in (there, back):
            task.cancel()
        await asyncio.gather(there, back, return_exceptions=True)
        await self._far.close()
        await self._near.close()

    async def _carry_there(self, has_requests: bool) -> bool:
        """Carry what the client sends; return False once a request was lost on its way."""
        request = b""
        async for message in self._near:
            if message.type is not aiohttp.WSMsgType.BINARY:
                continue
            if not (has_requests and message.data[:1] == DATA):
                await self._far.send_bytes(message.data)
                continue
            request += message.data[1:]
            if not _is_whole(request):
                continue
            if self._is_refused(request):
                await self._opened.wait()
                await self._near.send_bytes(DATA + REFUSAL)
                request = b""
                continue
            if not await self._passes(request):
                return False
            await self._far.send_bytes(DATA + request)
            request = b""
        return True

    async def _passes(self, request: bytes) -> bool:
        """Hold a request where this is its moment; return whether it goes on."""
        found, held = REQUEST.match(request), self._gate.held
        if found is None or not held.wants(found[1].decode(), found[2].decode()):
            return True
        self._is_held = True
        if held.moment.is_back:
            self._back = held
            return True
        return await held.hold()

    def _is_refused(self, request: bytes) -> bool:
        found, refused = REQUEST.match(request), self._gate.refused
        return bool(refused and found and re.search(refused, found[2].decode()))

    async def _carry_back(self) -> None:
        async for message in self._far:
            if message.type is not aiohttp.WSMsgType.BINARY:
                continue
            self._opened.set()
            is_answer = message.data[:1] == DATA and len(message.data) > 1 + PORT_BYTES
            if is_answer:
                self._answered.set()
            if is_answer and self._back is not None:
                held, self._back = self._back, None
                if not await held.hold():
                    return
            if not self._near.closed:
                await self._near.send_bytes(message.data)


async def tunnel(
    request: web.Request, session: aiohttp.ClientSession, url: str, headers: Mapping[str, str], gate: Gate
) -> web.StreamResponse:
    """Answer a request for a WebSocket with one to the cluster."""
    protocols = tuple(word.strip() for word in request.headers.get("Sec-WebSocket-Protocol", "").split(",") if word)
    sent = {key: value for key, value in headers.items() if not key.lower().startswith(("sec-websocket", "upgrade"))}
    try:
        far = await session.ws_connect(url, protocols=protocols, headers=sent, max_msg_size=MAX_MESSAGE)
    except aiohttp.WSServerHandshakeError as error:
        return web.json_response(
            {"kind": "Status", "message": error.message, "code": error.status}, status=error.status
        )
    near = web.WebSocketResponse(protocols=protocols, max_msg_size=MAX_MESSAGE)
    await near.prepare(request)
    await Tunnel(near, far, gate).carry(has_requests="/portforward" in request.path)
    return near


def _is_whole(request: bytes) -> bool:
    """Return whether all of an HTTP request is there; of what is none, nothing is waited for."""
    head, end, body = request.partition(b"\r\n\r\n")
    if REQUEST.match(request) is None:
        return True
    length = LENGTH.search(head)
    return bool(end) and len(body) >= (int(length[1]) if length else 0)
