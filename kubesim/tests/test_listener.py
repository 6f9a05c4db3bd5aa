"""More connections than there are file descriptors: the last are turned away, everything else goes on."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from kubesim import listener
from kubesim.serve import Address, listen


async def test_whoever_comes_when_descriptors_are_short_is_turned_away(monkeypatch, caplog):
    served = []

    async def serve(reader, writer):
        served.append(writer)
        await reader.read()

    sock = listen(Address("127.0.0.1", 0))
    server = await asyncio.start_server(serve, sock=sock, backlog=100)
    port = sock.getsockname()[1]
    first = await asyncio.open_connection("127.0.0.1", port)
    while not served:
        await asyncio.sleep(0)
    with socket.socket() as probe:
        limit = probe.fileno()
    monkeypatch.setattr(listener, "most_connected", lambda: limit)
    with caplog.at_level(logging.DEBUG):
        refused = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        assert [await reader.read() for reader, _ in refused] == [b""] * 20
    assert len(served) == 1
    assert "out of system resource" not in caplog.text
    monkeypatch.undo()
    again = await asyncio.open_connection("127.0.0.1", port)
    while len(served) < 2:
        await asyncio.sleep(0)
    for _, writer in [first, again, *refused]:
        writer.close()
    for writer in served:
        writer.close()
        await writer.wait_closed()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize(("limit", "most"), [((200, 4096), 152), ((-1, -1), 8144)])
def test_some_descriptors_are_kept_for_what_is_no_connection(monkeypatch, limit, most):
    monkeypatch.setattr(listener.resource, "getrlimit", lambda what: limit)
    assert listener.most_connected() == most


@pytest.mark.parametrize(
    ("limit", "asked"), [((200, 4096), (4096, 4096)), ((256, -1), (8192, -1)), ((9000, -1), None)]
)
def test_a_low_limit_is_raised_as_far_as_it_may(monkeypatch, limit, asked):
    calls = []
    monkeypatch.setattr(listener.resource, "getrlimit", lambda what: limit)
    monkeypatch.setattr(listener.resource, "setrlimit", lambda what, wanted: calls.append(wanted))
    listener.raise_limit()
    assert calls == ([asked] if asked else [])
