"""The front holds against who opens connections: silent ones, slow ones, and very many of one cluster."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import orjson
import pytest

from kubesim.front import Doorstep, claim, token_of
from kubesim.tests import hosts
from kubesim.tests.hosts import cluster
from kubesim.tests.hosts import token_of as admin_of

FEW = """
from kubesim import front
front.MAX_SILENT, front.MAX_SPEAKING, front.MAX_CONNECTIONS, front.HEAD_S = 40, 10, 10, 2.0
"""
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """A host that takes few connections, so that it takes few to try."""
    with hosts.running(tmp_path_factory.mktemp("front"), defect=hosts.NO_IMAGES + FEW) as host:
        yield host


async def open_silent(host, count):
    return [await asyncio.open_connection("127.0.0.1", host.port) for _ in range(count)]


async def open_slow(host, count, begun=b"GET / HTTP/1.1\r\nHost: "):
    """Open connections whose first request does not end."""
    found = []
    for _ in range(count):
        with suppress(OSError):
            found.append(await asyncio.open_connection("127.0.0.1", host.port, ssl=host.trust))
            found[-1][1].write(begun)
    return found


async def close(connections):
    for _, writer in connections:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


@pytest.mark.parametrize("opened", [open_silent, open_slow])
async def test_half_open_connections_keep_nobody_out(host, opened):
    held = await opened(host, 80)
    async with cluster(host, "calm") as admin, admin.get(PODS) as response:
        assert response.status == 200
    first, _ = held[0]
    with suppress(ConnectionError):
        assert await first.read() == b"", "the oldest were closed"
    await close(held)


@pytest.mark.parametrize("opened", [open_silent, open_slow])
async def test_who_says_nothing_is_not_waited_for(host, opened):
    held = await opened(host, 1)
    async with asyncio.timeout(60):
        with suppress(ConnectionError):
            assert await held[0][0].read() == b""
    await close(held)


async def test_one_clusters_connections_keep_nobody_out_of_another(host):
    async with cluster(host, "greedy"), cluster(host, "modest") as modest:
        token = admin_of(await hosts.shown(host, "greedy"))
        request = f"GET {PODS}?watch=true HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        held = await open_slow(host, 10, request)
        for reader, _ in held:
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        refused = await host.raw(request)
        assert refused.startswith(b"HTTP/1.1 429")
        assert orjson.loads(refused.partition(b"\r\n\r\n")[2])["reason"] == "TooManyRequests"
        async with modest.get(PODS) as response:
            assert response.status == 200
        await close(held)


async def test_a_watch_and_a_large_answer_pass_whole(host):
    async with cluster(host, "large") as admin:
        for number in range(3):
            body = {"metadata": {"name": f"m{number}"}, "data": {"text": "x" * 900_000}}
            async with admin.post("/api/v1/namespaces/default/configmaps", json=body) as response:
                assert response.status == 201
        async with admin.get("/api/v1/namespaces/default/configmaps") as response:
            assert len(await response.read()) > 2_700_000
        async with admin.get("/api/v1/namespaces/default/configmaps", params={"watch": "true"}) as stream:
            assert orjson.loads(await stream.content.readuntil(b"\n"))["type"] == "ADDED"


@pytest.mark.parametrize(
    ("head", "token"),
    [
        (b"GET / HTTP/1.1\r\nAuthorization: Bearer a.b.c", b"a.b.c"),
        (b"GET / HTTP/1.1\r\nauthorization:bearer a.b.c", b"a.b.c"),
        (b"GET / HTTP/1.1\r\nAuthorization: Basic eA==", b""),
        (b"GET / HTTP/1.1\r\nX: Authorization: Bearer a", b""),
        (b"GET / HTTP/1.1\r\nSec-WebSocket-Protocol: v5, base64url.bearer.authorization.k8s.io.YS5iLmM", b"a.b.c"),
        (b"GET / HTTP/1.1\r\nSec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.\xff", b""),
    ],
)
def test_the_token_is_where_kubectl_and_browsers_put_it(head, token):
    assert token_of(head) == token


@pytest.mark.parametrize("part", [b"", b"\xff", b"e30", b"W10", b"bnVsbA", b"eyJpc3MiOjF9", b"!!!!", b"e" * 100_000])
def test_a_claim_of_no_token_is_nothing(part):
    assert claim(part, "iss") == ""


async def test_who_leaves_without_a_word_is_not_greeted():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        greeted, spoke = [], asyncio.Event()
        step = Doorstep(lambda connection: (greeted.append(connection), spoke.set()))
        silent = [socket.create_connection(listener.getsockname()) for _ in range(8)]
        honest = socket.create_connection(listener.getsockname())
        step.accept(listener)
        for each in silent:
            each.close()
        honest.sendall(b"\x16")
        await asyncio.wait_for(spoke.wait(), 60)
        step.close()
        assert [each.getpeername() for each in greeted] == [honest.getsockname()]
        for each in (*greeted, honest):
            each.close()


async def test_a_connection_to_the_control_api_is_kept_and_leads_nowhere_else(host):
    def asking(path, token):
        return f"GET {path} HTTP/1.1\r\nHost: a\r\nauthorization: bearer {token}\r\n\r\n".encode()

    for path, token in (("/api/v1/pods", host.token), ("/control/health", "other"), ("/control/health", "")):
        requests = [asking("/control/health", host.token)] * 2 + [asking(path, token)]
        answers = await host.raw(b"".join(requests))
        assert [answers.count(b"HTTP/1.1 " + code) for code in (b"200", b"421")] == [2, 1], answers
