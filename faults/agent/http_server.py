"""A small HTTP/1.1 server for the agent: one request for each connection, with bounds on everything that is sent."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

from faults.agent.refusals import Refusal

MAX_HEAD = 8 * 1024
MAX_BODY = 4 * 1024
MAX_CHUNKS = 64
MAX_CONNECTIONS = 32
HEAD_S, BODY_S, ANSWER_S = 5.0, 5.0, 5.0
PHRASES = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed"}
PHRASES |= {408: "Request Timeout", 409: "Conflict", 413: "Content Too Large", 422: "Unprocessable Content"}
PHRASES |= {429: "Too Many Requests", 431: "Request Header Fields Too Large", 503: "Service Unavailable"}
Answer = tuple[int, dict[str, Any]]
Respond = Callable[[str, str, bytes, str], Answer]
log = logging.getLogger(__name__)


class HttpServer:
    """Calls ``respond`` with method, path, body and the caller's address, one request after the other."""

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self._writers: dict[asyncio.StreamWriter, None] = {}

    async def start(self, address: str, port: int) -> asyncio.Server:
        """Listen. The port is taken when it returns."""
        return await asyncio.start_server(self._serve, address, port, limit=MAX_HEAD, backlog=MAX_CONNECTIONS)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers[writer] = None
        if len(self._writers) > MAX_CONNECTIONS:  # whoever has been slowest makes room
            oldest = next(iter(self._writers))
            del self._writers[oldest]
            oldest.transport.abort()
        try:
            answer = await self._answer(reader, str(writer.get_extra_info("peername")[0]))
            await _send(writer, answer)
        finally:
            self._writers.pop(writer, None)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, source: str) -> bytes:
        """Return the answer to a request; nothing where the caller has gone."""
        try:
            method, path, body = await _request(reader)
            return _encode(*self._respond(method, path, body, source))
        except Refusal as refusal:
            document = {"detail": str(refusal), "code": refusal.code}
            return _encode(refusal.status, document, refusal.retry_after)
        except (ConnectionError, asyncio.IncompleteReadError):
            return b""


async def _send(writer: asyncio.StreamWriter, answer: bytes) -> None:
    try:
        async with asyncio.timeout(ANSWER_S):
            writer.write(answer)
            await writer.drain()
    except (ConnectionError, TimeoutError):
        writer.transport.abort()


async def _request(reader: asyncio.StreamReader) -> tuple[str, str, bytes]:
    """Return method, path without its query, and body. Raises Refusal."""
    try:
        async with asyncio.timeout(HEAD_S):
            head = await reader.readuntil(b"\r\n\r\n")
        method, path, headers = _parse_head(head)
        async with asyncio.timeout(BODY_S):
            return method, path, await _body(reader, headers)
    except asyncio.LimitOverrunError as error:
        raise Refusal(431, "head_too_large", f"the head has more than {MAX_HEAD} bytes") from error
    except TimeoutError as error:
        raise Refusal(408, "too_slow", "the request did not come in time") from error


def _parse_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        raise Refusal(400, "no_http", "this is no HTTP request")
    headers: dict[str, str] = {}
    for name, colon, value in (line.partition(":") for line in lines if line):
        key = name.lower()
        if not colon or name != name.strip() or (key in headers and key in ("content-length", "transfer-encoding")):
            raise Refusal(400, "no_http", "a header is malformed")
        headers[key] = value.strip()
    return words[0], words[1].partition("?")[0], headers


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    coding, length = headers.get("transfer-encoding", ""), headers.get("content-length", "0")
    if coding.lower() == "chunked" and "content-length" not in headers:
        return await _chunks(reader)
    if coding or not (length.isascii() and length.isdecimal()):
        raise Refusal(400, "no_http", "the length of the body is unknown")
    _require_small(len(length) < 10 and int(length) <= MAX_BODY)
    return await reader.readexactly(int(length))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    """Return a body in chunks, as ``kubectl create --raw`` sends it."""
    found = b""
    for _ in range(MAX_CHUNKS):
        line = (await reader.readuntil(b"\r\n")).partition(b";")[0].strip()
        try:
            size = int(line, 16) if len(line) < 8 else MAX_BODY + 1
        except ValueError as error:
            raise Refusal(400, "no_http", "a chunk is malformed") from error
        _require_small(size >= 0 and len(found) + size <= MAX_BODY)
        found += (await reader.readexactly(size + 2))[:size]
        if size == 0:
            return found
    raise Refusal(413, "body_too_large", f"the body has more than {MAX_CHUNKS} chunks")


def _require_small(is_small: bool) -> None:
    if not is_small:
        raise Refusal(413, "body_too_large", f"the body has more than {MAX_BODY} bytes")


def _encode(status: int, document: dict[str, Any], retry_after: int = 0) -> bytes:
    body = json.dumps(document).encode()
    lines = [f"HTTP/1.1 {status} {PHRASES[status]}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"Retry-After: {retry_after}"] if retry_after else []
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body
