"""Unfinished requests, over real connections to uvicorn with a small application behind the limits."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import ClassVar

import pytest
import uvicorn

from interview_site import http_protocol, request_limits
from interview_site.http_protocol import LimitedHttpProtocol
from interview_site.request_limits import RequestLimits

LARGE_BYTES = 2**26  # more than the buffers of two sockets hold, also where a system lets them grow
WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: x\r\n"


async def echo(scope, receive, send):
    """Answer with the number of bytes that came."""
    size = len((await receive())["body"])
    text = b"x" * LARGE_BYTES if scope["path"] == "/large" else str(size).encode()
    headers = [(b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


@pytest.fixture
async def port() -> AsyncIterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(RequestLimits(echo), http=LimitedHttpProtocol, lifespan="off", log_config=None)
        server = uvicorn.Server(config)
        server.capture_signals = contextlib.nullcontext
        task = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0)
        yield listener.getsockname()[1]
        for writer in Client.opened:
            writer.transport.abort()
        await asyncio.sleep(0)
        Client.opened.clear()
        server.should_exit = server.force_exit = True
        await task


class Client:
    """One connection."""

    opened: ClassVar[list[asyncio.StreamWriter]] = []

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.opened.append(writer)

    @classmethod
    async def open(cls, port):
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, data):
        self.writer.write(data)
        with contextlib.suppress(ConnectionError):
            await self.writer.drain()

    async def answer(self):
        """Return the status and the body."""
        async with asyncio.timeout(60):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            return int(head.split()[1]), await self.reader.readexactly(length)

    async def closed(self):
        """Wait for the end of the connection; return what came before it."""
        async with asyncio.timeout(60):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""


async def ask(port, data):
    client = await Client.open(port)
    await client.send(data)
    status, _ = await client.answer()
    return status, client


async def test_a_whole_request_gets_through_and_the_connection_is_kept(port):
    client = await Client.open(port)
    for size in (0, 5, 60_000):
        await client.send(b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)
        assert await client.answer() == (200, str(size).encode())


@pytest.mark.parametrize("sent", [b"", HALF, b"\r\n", b"GE"])
async def test_a_head_that_does_not_end_is_closed_in_time(port, monkeypatch, sent):
    monkeypatch.setattr(http_protocol, "HEAD_S", 0.05)
    client = await Client.open(port)
    await client.send(sent)
    answer = await client.closed()
    assert answer.startswith(b"HTTP/1.1 408") if sent.startswith(b"G") else answer == b""


async def test_a_head_that_trickles_in_has_the_same_deadline_on_a_kept_connection(port, monkeypatch):
    client = await Client.open(port)
    await client.send(WHOLE)
    await client.answer()
    monkeypatch.setattr(http_protocol, "HEAD_S", 0.2)
    for byte in HALF:
        await client.send(bytes([byte]))
        await asyncio.sleep(0.02)
    assert b"200" not in await client.closed()  # a reset may have overtaken the 408


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 101 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\na: " + b"x" * 40_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (WHOLE * 50, 431),
        (b"\x16\x03\x01 hello", 400),
    ],
)
async def test_a_head_without_measure_is_refused(port, head, status):
    client = await Client.open(port)
    await client.send(head)
    answers = await client.closed()
    assert b"HTTP/1.1 %d" % status in answers


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 65_535 + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\na: " + b"x" * 4_000_000,
        b"GET /" + b"x" * 4_000_000,
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a" * 4_000_000,
    ],
    ids=["many headers", "long value", "long address", "long name"],
)
async def test_a_head_of_megabytes_is_cut_off(port, head):
    client = await Client.open(port)
    await client.send(head)
    assert b"HTTP/1.1 200" not in await client.closed()


async def test_trailers_are_headers_too(port):
    client = await Client.open(port)
    await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 500)
    assert b"HTTP/1.1 431" in await client.closed()


async def test_many_that_wait_make_room_oldest_first_and_the_others_are_served(port, monkeypatch):
    monkeypatch.setattr(http_protocol, "MIN_WAIT_S", 0)
    monkeypatch.setattr(http_protocol, "MAX_WAITING_PER_ADDRESS", 20)
    waiting = [await Client.open(port) for _ in range(60)]
    for client in waiting:
        await client.send(HALF)
    for client in waiting[:40]:
        await client.closed()
    assert (await ask(port, WHOLE))[0] == 200
    await waiting[-1].send(b"\r\n")
    assert (await waiting[-1].answer())[0] == 200


async def test_many_who_come_at_once_are_all_served(port, monkeypatch):
    monkeypatch.setattr(http_protocol, "MAX_WAITING_PER_ADDRESS", 5)
    answers = await asyncio.gather(*(ask(port, WHOLE) for _ in range(100)))
    assert {status for status, _ in answers} == {200}


async def test_a_full_server_closes_who_waits_and_else_says_so(port, monkeypatch):
    await ask(port, WHOLE)  # makes the server's list
    for waiting in http_protocol._waiting.values():
        monkeypatch.setattr(waiting, "max_connections", 3)
    clients = [await Client.open(port) for _ in range(6)]
    await clients[0].closed()
    assert (await ask(port, WHOLE))[0] == 200


async def test_a_slow_body_is_refused_in_time(port, monkeypatch):
    monkeypatch.setattr(request_limits, "BODY_S", 0.05)
    monkeypatch.setattr(request_limits, "LINGER_S", 0.05)
    client = await Client.open(port)
    await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nab")
    assert (await client.closed()).startswith(b"HTTP/1.1 408")


async def test_a_slow_body_holds_no_place_of_a_request(port, monkeypatch):
    monkeypatch.setattr(request_limits, "MAX_QUEUED", 0)
    slow = [await Client.open(port) for _ in range(request_limits.MAX_REQUESTS + 20)]
    for client in slow:
        await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nab")
    assert (await ask(port, WHOLE))[0] == 200


async def test_a_declared_body_is_refused_before_it_comes(port):
    client = await Client.open(port)
    await client.send(b"POST /login/ HTTP/1.1\r\nHost: x\r\nContent-Length: 629145600\r\n\r\n")
    status, text = await client.answer()
    assert (status, text) == (413, b"The request is larger than this page takes. Nothing was saved.")


async def test_an_undeclared_body_is_counted_while_it_comes(port):
    client = await Client.open(port)
    await client.send(b"POST /login/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    sent = 0
    while not client.reader._buffer and sent < 2**22:
        await client.send(b"1000\r\n" + b"x" * 4096 + b"\r\n")
        await asyncio.sleep(0)
        sent += 4096
    assert (await client.answer())[0] == 413
    assert sent < 2**21


async def test_whoever_still_sends_reads_why(port):
    client = await Client.open(port)
    await client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n" + b"x" * 3_000_000)
    assert (await client.answer())[0] == 413


@pytest.mark.parametrize("length", [b"-1", b"1e9", b"9" * 30])
async def test_a_length_that_makes_no_sense_is_refused(port, length):
    assert (await ask(port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + length + b"\r\n\r\n"))[0] in (
        400,
        413,
    )


async def test_who_does_not_read_is_let_go(port, monkeypatch):
    lost, lose = asyncio.Event(), LimitedHttpProtocol.connection_lost
    monkeypatch.setattr(LimitedHttpProtocol, "connection_lost", lambda *args: (lose(*args), lost.set()))
    monkeypatch.setattr(http_protocol, "STALLED_S", 0.05)
    client = await Client.open(port)
    client.writer.transport.pause_reading()
    await client.send(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.wait_for(lost.wait(), 60)
    client.writer.transport.resume_reading()
    assert len(await client.closed()) < LARGE_BYTES
