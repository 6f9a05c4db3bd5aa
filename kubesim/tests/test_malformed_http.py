"""What is no HTTP is answered as Go's server does it, and nobody is frightened by a log."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest
from aiohttp import web

from kubesim.malformed_http import Runner


@pytest.fixture
async def port():
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", _broken)
    runner = Runner(app, access_log=None, max_line_size=8192, max_field_size=8192)
    await runner.setup()
    with socket.create_server(("127.0.0.1", 0)) as sock:
        await web.SockSite(runner, sock).start()
        yield sock.getsockname()[1]
        await runner.cleanup()


async def _broken(request):
    if request.path == "/broken":
        raise RuntimeError("our mistake")
    return web.Response(text="ok")


async def asked(port, data):
    """Return everything that comes back for some bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"GARBAGE\r\n\r\n", "400 Bad Request"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", "400 Bad Request"),
        (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", "505 HTTP Version Not Supported: unsupported protocol version"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nno colon here\r\n\r\n", "400 Bad Request"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nLong: " + b"x" * 70_000 + b"\r\n\r\n", "431 Request Header Fields Too Large"),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", "431 Request Header Fields Too Large"),
    ],
)
async def test_what_is_no_http_is_refused_in_gos_words_and_not_logged(port, data, told, caplog):
    with caplog.at_level(logging.INFO):
        answer = (await asked(port, data)).decode()
    head = "Content-Type: text/plain; charset=utf-8\r\nConnection: close"
    assert answer == f"HTTP/1.1 {told}\r\n{head}\r\n\r\n{told}"
    assert caplog.records == []


async def test_what_is_http_is_answered(port):
    answer = await asked(port, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


async def test_a_mistake_of_ours_is_logged(port, caplog):
    answer = await asked(port, b"GET /broken HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert "our mistake" in caplog.text
