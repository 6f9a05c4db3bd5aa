"""Nodes that joined a kubesim: its API server asks their kubelets, in another process, as a real one would."""

import asyncio
import socket
import struct
import threading
from argparse import ArgumentTypeError
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from ipaddress import ip_network

import orjson
import pytest
from aiohttp import ClientError, ClientPayloadError

from kubesim.clock import settle
from kubesim.cluster import Cluster, ClusterSpec
from kubesim.commandline import _networks
from kubesim.metrics import metrics_server
from kubesim.metrics.metrics_server import MetricsServer
from kubesim.network.fabric import Request
from kubesim.pki import CertificateAuthority
from kubesim.streaming.pipe import FULL_BYTES
from kubesim.streaming.seam import Unreached
from kubesim.streaming.spdy import SpdyConnection
from kubesim.tests import joining, test_streams
from kubesim.tests.live import serving
from kubesim.tests.test_streams import EXEC, PODS, Spdy, admin, collect, command

__all__ = ["admin"]
NODES = "/api/v1/nodes"


@contextmanager
def elsewhere(live):
    """Let a node join from an event loop of its own, as another process has one; yields what stops it."""
    ready, loop, done = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    async def run():
        async with joining.joined(live, tainted=False):
            ready.set()
            await done.wait()

    def stop():
        loop.call_soon_threadsafe(done.set)
        thread.join(60)

    def work():
        try:
            loop.run_until_complete(run())
        finally:
            ready.set()
            loop.close()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert ready.wait(60)
    try:
        yield stop
    finally:
        if thread.is_alive():
            stop()


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("foreign"), nodes=0) as live, elsewhere(live):
        yield live


test_a_command_runs_over_a_websocket = test_streams.test_a_command_runs_over_a_websocket
test_input_ends_when_version_five_says_so = test_streams.test_input_ends_when_version_five_says_so
test_a_terminal_echoes_and_follows_its_size = test_streams.test_a_terminal_echoes_and_follows_its_size
test_messages_that_make_no_sense_are_passed_over = test_streams.test_messages_that_make_no_sense_are_passed_over
test_what_cannot_be_entered_is_refused = test_streams.test_what_cannot_be_entered_is_refused_as_upstream_words_it
test_a_stream_without_any_channel_is_refused = test_streams.test_a_stream_without_any_channel_is_refused
test_an_open_stream_is_cut = test_streams.test_an_open_stream_is_cut_when_its_user_may_no_longer
test_a_command_runs_over_spdy = test_streams.test_a_command_runs_over_spdy
test_hostile_frames_end_only_their_connection = test_streams.test_hostile_frames_end_only_their_connection
test_a_port_is_reached_over_spdy = test_streams.test_a_port_is_reached_over_spdy
test_a_port_is_reached_over_websocket_channels = test_streams.test_a_port_is_reached_over_websocket_channels
test_log_options_are_checked_as_upstream_does = test_streams.test_log_options_are_checked_as_upstream_does


async def text(client, path):
    async with client.get(path) as answer:
        return answer.status, await answer.text()


async def message(client, path, **how):
    """Return the code, the reason and the message of a refusal."""
    async with client.request(how.pop("method", "GET"), path, **how) as answer:
        told = orjson.loads(await answer.read())
        return answer.status, told.get("reason", ""), told["message"]


async def test_a_log_is_read_and_followed(admin):
    spec = {"containers": [{"name": "main", "image": "busybox", "command": ["sh", "-c", "echo 1; echo 2; echo 3"]}]}
    await admin.post(PODS, json={"metadata": {"name": "talker"}, "spec": {**spec, "restartPolicy": "Never"}})
    async with asyncio.timeout(30):
        while (await text(admin, f"{PODS}/talker/log?follow=true"))[1] != "1\n2\n3\n":
            await asyncio.sleep(0.05)
    assert await text(admin, f"{PODS}/talker/log?tailLines=1") == (200, "3\n")
    assert await text(admin, f"{PODS}/talker/log?limitBytes=3") == (200, "1\n2")
    assert (await text(admin, f"{PODS}/talker/log?timestamps=true"))[1].split()[1] == "1"
    async with admin.ws_connect(f"{PODS}/talker/log", protocols=["binary.k8s.io"]) as socket:
        assert b"".join([message.data async for message in socket]) == b"1\n2\n3\n"
    code, reason, why = await message(admin, f"{PODS}/talker/log?previous=true")
    assert (code, reason) == (400, "BadRequest")
    assert why.startswith('previous terminated container "main" in pod "talker" not found')
    async with admin.delete(f"{PODS}/talker?gracePeriodSeconds=0") as answer:
        assert answer.status == 200


async def test_a_port_answers_after_its_client_has_said_all(live, admin):
    spdy = await Spdy.open(live, live.token, f"{PODS}/net/portforward", "portforward.k8s.io")
    spdy.syn(1, streamtype="error", port="8080", requestid="1")
    spdy.syn(3, streamtype="data", port="8080", requestid="1")
    spdy.data(3, b"GET /hostname HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 1)
    found, ended = b"", set()
    while ended != {1, 3}:
        number, flags, payload = await spdy.frame()
        found += payload if number == 3 else b""
        ended |= {number} if number > 0 and flags & 1 else set()
    assert found.endswith(b"net")
    spdy.close()


async def test_a_terminal_that_nobody_reads_does_not_fill_the_server(live, admin):
    """What a container prints is held up all the way to it; the server goes on for others meanwhile."""
    async with admin.ws_connect(command("yes", stdout=1), protocols=["v5.channel.k8s.io"]) as idle:
        async with admin.ws_connect(command("echo", "hi", stdout=1), protocols=["v5.channel.k8s.io"]) as socket:
            assert (await collect(socket))[1] == b"hi\n"
        assert (await idle.receive()).data[:1] == b"\x01"


def test_a_client_of_spdy_stops_the_arrival_of_what_nobody_reads():
    calls, sent = [], bytearray()

    async def drain():
        pass

    server = SpdyConnection(sent.extend, drain, lambda stream: "")
    client = SpdyConnection(server.feed, drain, None, lambda: calls.append("pause"), lambda: calls.append("resume"))
    stream = client.open({"streamtype": "stdout"})
    assert server.streams[1].headers == {"streamtype": "stdout"}
    server.streams[1].send(b"x" * (FULL_BYTES + 1))
    client.feed(bytes(sent))
    assert calls == ["pause"]
    stream.close()
    assert calls == ["pause", "resume"]


@contextmanager
def plain():
    """A port that speaks HTTP where TLS is expected; yields its number."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer():
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(30)


@asynccontextmanager
async def placed(admin, name, port, *addresses):
    """Have a node that is wherever it says, with a pod bound to it, while the block lasts."""
    told = [{"type": kind, "address": address} for kind, address in addresses]
    status = {"addresses": told, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
    await admin.post(NODES, json={"metadata": {"name": name}, "spec": {"unschedulable": True}})
    merge = {"Content-Type": "application/merge-patch+json"}
    async with admin.patch(f"{NODES}/{name}/status", json={"status": status}, headers=merge) as answer:
        assert answer.status == 200, await answer.text()
    spec = {"nodeName": name, "containers": [{"name": "main", "image": "x"}], "tolerations": [{"operator": "Exists"}]}
    async with admin.post(PODS, json={"metadata": {"name": name}, "spec": spec}) as answer:
        assert answer.status == 201, await answer.text()
    try:
        yield
    finally:
        for path in (f"{PODS}/{name}?gracePeriodSeconds=0", f"{NODES}/{name}"):
            async with admin.delete(path) as answer:
                assert answer.status in (200, 404)


FORWARD = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "portforward.k8s.io"}
UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"}
REFUSED = "dial tcp 127.0.0.1:1: connect: connection refused"
PLAIN = "http: server gave HTTP response to HTTPS client"
NOWHERE = "dial tcp: lookup nosuch.invalid: no such host"
FAR = "dial tcp 192.0.2.1:10250: connect: network is unreachable"


@pytest.mark.parametrize(
    ("name", "address", "place", "dialled", "asked"),
    [
        ("dead", ("InternalIP", "127.0.0.1"), "127.0.0.1:1", REFUSED, REFUSED),
        ("plain", ("InternalIP", "127.0.0.1"), "", "tls: first record does not look like a TLS handshake", PLAIN),
        ("named", ("Hostname", "nosuch.invalid"), "nosuch.invalid:10250", NOWHERE, NOWHERE),
        ("far", ("ExternalIP", "192.0.2.1"), "192.0.2.1:10250", FAR, FAR),
    ],
)
async def test_a_kubelet_that_does_not_answer_is_told_in_gos_words(admin, name, address, place, dialled, asked):
    async with AsyncExitStack() as stack:
        port = stack.enter_context(plain())
        place = place or f"127.0.0.1:{port}"
        await stack.enter_async_context(placed(admin, name, int(place.rpartition(":")[2]), address))
        where = f"https://{place}"
        log = f'Get "{where}/containerLogs/default/{name}/main?tailLines=3": {asked}'
        assert await message(admin, f"{PODS}/{name}/log?tailLines=3") == (500, "", log)
        path = f"{PODS}/{name}/exec?command=ls&command=a%20b&stdout=1"
        refused = 500, "", f"error dialing backend: {dialled}"
        assert await message(admin, path, method="POST", headers=UPGRADE) == refused
        assert await message(admin, f"{PODS}/{name}/portforward", method="POST", headers=FORWARD) == refused
        async with admin.ws_connect(path, protocols=["v5.channel.k8s.io"]) as socket:
            status = orjson.loads((await collect(socket))[3])
        url = f"{where}/exec/default/{name}/main?command=ls&command=a+b&output=1"
        assert status["message"] == f'Internal error occurred: error sending request: Post "{url}": {asked}'


async def test_a_node_without_a_fitting_address_is_told(admin):
    why = "no preferred addresses found; known addresses: [{InternalDNS a.b} {ExternalDNS c.d}]"
    async with placed(admin, "odd", 1, ("InternalDNS", "a.b"), ("ExternalDNS", "c.d")):
        for path in (f"{PODS}/odd/log", f"{PODS}/odd/exec?command=ls&stdout=1", f"{NODES}/odd/proxy/"):
            assert await message(admin, path) == (500, "", why)


@pytest.mark.parametrize("address", [("InternalIP", "127.0.0.1"), ("Hostname", "localhost"), ("InternalIP", "::1")])
async def test_a_proxy_leads_to_no_loopback_address_whatever_it_is_called(admin, address):
    name = f"loop-{address[1].translate(str.maketrans('.:', '--'))}x"
    async with AsyncExitStack() as stack:
        port = stack.enter_context(plain())
        await stack.enter_async_context(placed(admin, name, port, address))
        for node in (name, f"{name}:{port}", f"http:{name}:{port}"):
            assert await message(admin, f"{NODES}/{node}/proxy/") == (400, "BadRequest", "address not allowed")


async def test_where_clusters_share_a_process_no_node_leads_out_of_it(tmp_path):
    """Whoever may register a node would otherwise choose what the host of all clusters connects to."""
    with socket.create_server(("127.0.0.1", 0)) as trap:
        trap.setblocking(False)
        clock = joining.RealClock()
        spec = ClusterSpec("tenant", datetime.now(UTC), 0, without=frozenset({"scheduler", "controllers"}))
        authority = CertificateAuthority.create(clock.now())
        cluster = await Cluster.create(spec, clock, "https://127.0.0.1:1/clusters/tenant", authority)
        client, endpoint = cluster._client("kubelet"), {"kubeletEndpoint": {"Port": trap.getsockname()[1]}}
        for number, host in enumerate(("127.0.0.1", "localhost", "10.0.0.1", "169.254.169.254", "::1")):
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"}}
            told = {"addresses": [{"type": "InternalIP", "address": host}], "daemonEndpoints": endpoint}
            await client.create("nodes", node)
            await client.patch("nodes", f"n{number}", "", {"status": told}, subresource="status")
            assert not cluster.nodes.fabric.leads_out(host)
            pod = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"nodeName": f"n{number}"}}
            with pytest.raises(Unreached, match="connect: network is unreachable"):
                async with cluster.nodes.forward(pod, lambda: None):
                    pytest.fail("it was reached")
        await cluster.stop()
        with pytest.raises(BlockingIOError):
            trap.accept()


async def test_a_forwarded_port_ends_with_its_kubelet(tmp_path):
    with serving(tmp_path, nodes=0) as live, elsewhere(live) as stop:
        async with live.client() as client:
            spec = {"containers": [{"name": "main", "image": "nginx"}]}
            await client.post(PODS, json={"metadata": {"name": "web"}, "spec": spec})
            async with asyncio.timeout(30):
                while '"phase":"Running"' not in (await text(client, f"{PODS}/web"))[1]:
                    await asyncio.sleep(0.05)
            spdy = await Spdy.open(live, live.token, f"{PODS}/web/portforward", "portforward.k8s.io")
            await asyncio.to_thread(stop)
            async with asyncio.timeout(30):
                assert await spdy.until_end() == {}
            spdy.close()


async def test_the_kubelets_know_the_api_server_by_its_certificate(live, admin):
    """It shows no token: a kubelet asks who ``kube-apiserver-kubelet-client`` is and what it may."""
    async with admin.ws_connect(f"{EXEC}?command=hostname&stdout=1", protocols=["v5.channel.k8s.io"]) as socket:
        assert (await collect(socket))[1] == b"web\n"


async def test_top_shows_the_nodes_and_pods_of_other_processes(live, admin):
    async def ask(what):
        server = MetricsServer(live.cluster._client("metrics"), live.cluster.clock, live.cluster.nodes.fabric)
        return await server.respond(Request("GET", f"/apis/metrics.k8s.io/v1beta1/{what}"))

    def asked(what):
        return orjson.loads(asyncio.run_coroutine_threadsafe(ask(what), live.loop).result(30).body)["items"]

    async with placed(admin, "silent", 1, ("InternalIP", "127.0.0.1")):
        (node,) = await asyncio.to_thread(asked, "nodes")
        assert node["metadata"]["name"] == "test-0"
        assert int(node["usage"]["cpu"].removesuffix("n")) > 0
        found = await asyncio.to_thread(asked, "namespaces/default/pods")
        assert {item["metadata"]["name"] for item in found} >= {"net", "web"}


def test_what_is_no_summary_of_a_kubelets_is_passed_over():
    for hostile in ({}, {"pods": 7}, {"pods": [1, {"podRef": 2}, {"podRef": {}, "containers": [{"cpu": "x"}]}]}):
        assert [containers for _, _, containers in metrics_server.pods_of(hostile)] in ([], [[]])
    for stats in (None, [], {"cpu": 1, "memory": {}}, {"cpu": {"usageNanoCores": "1"}, "memory": {}}):
        assert metrics_server.used(stats) is None


OK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
HOSTILE = {
    "nothing": b"",
    "no HTTP": b"\x00\xff" * 5000,
    "an endless head": b"HTTP/1.1 200 OK\r\n" + b"X: " + b"x" * 200_000,
    "a redirect": b"HTTP/1.1 302 Found\r\nLocation: https://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
    "an odd status": b"HTTP/1.1 999 What\r\nContent-Length: 3\r\n\r\nhm!",
    "a status that is an end": b"HTTP/1.1 204 No Content\r\n\r\n",
    "an error cut short": b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 900\r\n\r\nhalf",
    "a body cut short": OK + b"5\r\nhel",
    "chunks that are none": OK + b"zz\r\n",
    "another protocol": SWITCHED + b"\x80\x03" + b"\xff" * 500,
    "frames for nobody": SWITCHED + struct.pack(">II", 99, 5) + b"hello" + struct.pack(">HHI", 0x8003, 3, 2) + b"xx",
    "goodbye": SWITCHED + struct.pack(">HHIII", 0x8003, 7, 8, 0, 0),
    "streams of its own": SWITCHED + struct.pack(">HHI", 0x8003, 1, 10) + bytes(10),
    "a Status that is none": SWITCHED,
}


@asynccontextmanager
async def hostile(folder, answer):
    """A kubelet that sends the same whatever is asked, and hangs up; yields its port."""

    async def talk(reader, writer):
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        writer.close()

    now = datetime.now(UTC)
    context = CertificateAuthority.create(now).issue_server(["127.0.0.1"], now).context(folder)
    server = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await settle(50)


@pytest.mark.parametrize("what", HOSTILE)
async def test_a_kubelet_that_answers_nonsense_ends_only_what_asked_it(live, admin, tmp_path, caplog, what):
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(hostile(tmp_path, HOSTILE[what]))
        await stack.enter_async_context(placed(admin, "mad", port, ("InternalIP", "127.0.0.1")))
        streams = live.ask(lambda cluster: cluster.guard.streams)
        async with asyncio.timeout(30):
            with suppress(ClientPayloadError):
                async with admin.get(f"{PODS}/mad/log") as answer:
                    await answer.read()
            for upgrade, path in ((UPGRADE, "exec?command=ls&stdout=1&stdin=1"), (FORWARD, "portforward")):
                with suppress(ClientError):
                    async with admin.post(f"{PODS}/mad/{path}", headers=upgrade) as answer:
                        assert answer.status == 101 or answer.status >= 300
            async with admin.ws_connect(
                f"{PODS}/mad/exec?command=ls&stdout=1", protocols=["v5.channel.k8s.io"]
            ) as ws:
                await collect(ws)
        assert await text(admin, "/healthz") == (200, "ok")
        async with asyncio.timeout(30):
            while live.ask(lambda cluster: cluster.guard.streams) > streams:
                await asyncio.sleep(0.01)
    assert "Traceback" not in caplog.text
    assert "Unhandled" not in caplog.text


@pytest.mark.parametrize("given", ["10.0.0.0/8,::1/128", "none", ""])
def test_networks_are_read_from_a_list(given):
    if not given:
        with pytest.raises(ArgumentTypeError, match="give networks such as 10.0.0.0/8"):
            _networks("here")
        return
    assert _networks(given) == (() if given == "none" else (ip_network("10.0.0.0/8"), ip_network("::1/128")))
