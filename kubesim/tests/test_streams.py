"""Streams into pods as clients open them: WebSocket and SPDY, who may, what is refused and how, what ends them."""

import asyncio
import socket
import ssl
import struct
import zlib
from urllib.parse import quote

import orjson
import pytest
from aiohttp import WSMsgType, WSServerHandshakeError

from kubesim.streaming.spdy import DICTIONARY
from kubesim.tests.agnhost import IMAGE as AGNHOST
from kubesim.tests.live import serving

EXEC = "/api/v1/namespaces/default/pods/web/exec"
PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("streams"), nodes=1) as live:
        yield live


@pytest.fixture
async def admin(live):
    """A session of the administrator, with the pods ``web``, ``net`` and ``py`` running."""
    async with live.client() as client:
        sleep = ["sleep", "100000"]
        for name, image, key, args in (
            ("web", "busybox:1.36", "command", sleep),
            ("net", AGNHOST, "args", ["netexec"]),
            ("py", "python:3.12-slim", "command", sleep),
        ):
            spec = {"containers": [{"name": "main", "image": image, key: args}], "terminationGracePeriodSeconds": 0}
            async with client.post(PODS, json={"metadata": {"name": name}, "spec": spec}) as answer:
                assert answer.status in (201, 409)
        async with asyncio.timeout(60):
            while True:
                async with client.get(PODS) as answer:
                    pods = (await answer.json())["items"]
                if all(pod["status"].get("phase") == "Running" for pod in pods):
                    break
        yield client


def insecure():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def command(*words, **flags):
    query = "&".join([*(f"command={quote(word)}" for word in words), *(f"{key}=true" for key in flags)])
    return f"{EXEC}?{query}"


async def collect(socket):
    """Return what came on each channel until the socket closed."""
    found = {}
    async for message in socket:
        if message.type == WSMsgType.BINARY:
            found.setdefault(message.data[0], bytearray()).extend(message.data[1:])
    return {channel: bytes(data) for channel, data in found.items()}


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_a_command_runs_over_a_websocket(admin, protocol):
    path = command("sh", "-c", "echo out; echo err >&2; exit 3", stdout=1, stderr=1)
    async with admin.ws_connect(path, protocols=[protocol]) as socket:
        assert socket.protocol == protocol
        found = await collect(socket)
    assert (found[1], found[2]) == (b"out\n", b"err\n")
    status = orjson.loads(found[3])
    assert status["reason"] == "NonZeroExitCode"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


WATCH = """
import json, ssl, urllib.request
own = "/var/run/secrets/kubernetes.io/serviceaccount/"
url = "https://kubernetes.default.svc/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=600"
request = urllib.request.Request(url, headers={"Authorization": "Bearer " + open(own + "token").read()})
with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=own + "ca.crt")) as answer:
    for line in answer:
        print(json.loads(line)["object"]["metadata"]["name"], flush=True)
"""
WATCHER = {
    "metadata": {"name": "watcher"},
    "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
}


async def until_printed(socket, word):
    printed = b""
    async with asyncio.timeout(30):
        while word not in printed:
            printed += (await socket.receive_bytes())[1:]


async def test_a_program_in_a_pod_reads_each_event_of_its_watch_at_once(admin):
    async with admin.post(BINDINGS, json=WATCHER) as answer:
        assert answer.status == 201
    path = command("python3", "-c", WATCH, stdout=1, stderr=1).replace("/web/", "/py/")
    async with admin.ws_connect(path, protocols=["v5.channel.k8s.io"]) as socket:
        await until_printed(socket, b"kube-root-ca.crt")
        async with admin.post(CONFIG_MAPS, json={"metadata": {"name": "later"}}) as answer:
            assert answer.status == 201
        await until_printed(socket, b"later")
    async with admin.delete(f"{BINDINGS}/watcher") as answer:
        assert answer.status == 200


async def test_input_ends_when_version_five_says_so(admin):
    async with admin.ws_connect(command("cat", stdin=1, stdout=1), protocols=["v5.channel.k8s.io"]) as socket:
        await socket.send_bytes(b"\x00hello ")
        await socket.send_bytes(b"\x00world")
        await socket.send_bytes(b"\xff\x00")
        found = await collect(socket)
    assert found[1] == b"hello world"
    assert orjson.loads(found[3])["status"] == "Success"


async def test_a_terminal_echoes_and_follows_its_size(admin):
    path = command("sh", stdin=1, stdout=1, tty=1)
    async with admin.ws_connect(path, protocols=["v5.channel.k8s.io"]) as socket:
        await socket.send_bytes(b'\x04{"Width":132,"Height":43}')
        await socket.send_bytes(b"\x00stty size; exit 5\r")
        found = await collect(socket)
    assert b"43 132\r\n" in found[1]
    assert orjson.loads(found[3])["details"]["causes"][0]["message"] == "5"


async def test_messages_that_make_no_sense_are_passed_over(admin):
    async with admin.ws_connect(command("cat", stdin=1, stdout=1), protocols=["v5.channel.k8s.io"]) as socket:
        for message in (b"", b"\x09?", b"\x01x", b"\x03x", b"\xff\x07", b"\xff", b"\x04{", b"\x04[[[[", b"\x04{}"):
            await socket.send_bytes(message)
        await socket.send_bytes(b"\x00ok")
        await socket.send_bytes(b"\xff\x00")
        assert (await collect(socket))[1] == b"ok"


@pytest.mark.parametrize(
    ("path", "code", "text"),
    [
        (f"{EXEC}?command=true&stdout=1", 400, "Upgrade request required"),
        (f"{PODS}/none/exec?command=true&stdout=1", 404, 'pods "none" not found'),
        (f"{EXEC}?command=true&container=nope&stdout=1", 400, "container nope is not valid for pod web"),
        (f"{PODS}/web/portforward", 400, "Upgrade request required"),
    ],
)
async def test_what_cannot_be_entered_is_refused_as_upstream_words_it(admin, path, code, text):
    async with admin.get(path) as answer:
        assert (answer.status, (await answer.json())["message"]) == (code, text)


async def test_a_stream_without_any_channel_is_refused(admin):
    with pytest.raises(WSServerHandshakeError) as caught:
        await admin.ws_connect(f"{EXEC}?command=true", protocols=["v4.channel.k8s.io"])
    assert caught.value.status == 400
    async with admin.ws_connect(f"{EXEC}?command=true", protocols=["v5.channel.k8s.io"]) as socket:
        status = orjson.loads((await collect(socket))[3])
    why = "unable to upgrade connection: you must specify at least 1 of stdin, stdout, stderr"
    assert status["message"] == f"Internal error occurred: {why}"


async def test_reading_pods_is_not_enough_to_enter_them(live, admin):
    token = await account(admin, "reader", ["get", "list"], ["pods", "pods/exec", "pods/log"])
    async with live.client(token) as reader:
        with pytest.raises(WSServerHandshakeError) as caught:
            await reader.ws_connect(command("true", stdout=1), protocols=["v5.channel.k8s.io"])
        assert caught.value.status == 403
        async with reader.post(command("true", stdout=1)) as answer:
            user = "system:serviceaccount:default:reader"
            assert (await answer.json())["message"] == (
                f'pods "web" is forbidden: User "{user}" cannot create resource "pods/exec" in API group "" '
                'in the namespace "default"'
            )


async def account(admin, name, verbs, resources):
    """Make a service account with rights and return its token."""
    rules = [{"apiGroups": [""], "resources": resources, "verbs": verbs}]
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    for path, body in (
        ("/api/v1/namespaces/default/serviceaccounts", {}),
        (f"{rbac}/roles", {"rules": rules}),
        (f"{rbac}/rolebindings", {"subjects": [subject], "roleRef": role}),
    ):
        async with admin.post(path, json={"metadata": {"name": name}, **body}) as answer:
            assert answer.status == 201
    async with admin.post(f"/api/v1/namespaces/default/serviceaccounts/{name}/token", json={}) as answer:
        return (await answer.json())["status"]["token"]


@pytest.mark.parametrize(("what", "code"), [("serviceaccounts", b"401"), ("rolebindings", b"403")])
async def test_an_open_stream_is_cut_when_its_user_may_no_longer(live, admin, what, code):
    name = f"guest-{what}"
    token = await account(admin, name, ["create"], ["pods/exec"])
    group = "/api/v1" if what == "serviceaccounts" else "/apis/rbac.authorization.k8s.io/v1"
    async with live.client(token) as guest:
        path = command("sleep", "1000", stdout=1)
        async with guest.ws_connect(path, protocols=["v5.channel.k8s.io"]) as socket:
            await socket.receive()
            async with admin.delete(f"{group}/namespaces/default/{what}/{name}") as answer:
                assert answer.status == 200
            async with asyncio.timeout(30):
                assert (await socket.receive()).type in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.ERROR)
        spdy = await Spdy.open(live, token, f"{PODS}/web/exec?command=true&stdout=1", expect=code)
        spdy.close()


class Spdy:
    """A small SPDY client on a TLS socket."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.deflate = zlib.compressobj(zdict=DICTIONARY)

    @classmethod
    async def open(cls, live, token, path, protocol="v4.channel.k8s.io", expect=b"101"):
        context: ssl.SSLContext = live.trust()
        reader, writer = await asyncio.open_connection("127.0.0.1", live.port, ssl=context)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: Upgrade\r\n"
            f"Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: {protocol}\r\nContent-Length: 0\r\n\r\n"
        )
        writer.write(head.encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.split()[1] == expect, answer
        return cls(reader, writer)

    def syn(self, number, **headers):
        plain = struct.pack(">I", len(headers))
        for pair in headers.items():
            for text in pair:
                plain += struct.pack(">I", len(text)) + text.encode()
        block = self.deflate.compress(plain) + self.deflate.flush(zlib.Z_SYNC_FLUSH)
        payload = struct.pack(">IIH", number, 0, 0) + block
        self.writer.write(struct.pack(">HHI", 0x8003, 1, len(payload)) + payload)

    def data(self, number, data, flags=0):
        self.writer.write(struct.pack(">II", number, flags << 24 | len(data)) + data)

    async def frame(self):
        """Return (type or stream, flags, payload)."""
        first, second = struct.unpack(">II", await self.reader.readexactly(8))
        payload = await self.reader.readexactly(second & 0xFFFFFF)
        return (-(first & 0xFFFF) if first >> 31 else first), second >> 24, payload

    async def until_end(self):
        """Return what came on each stream until the server closed."""
        found = {}
        try:
            while True:
                kind, _, payload = await self.frame()
                if kind > 0:
                    found[kind] = found.get(kind, b"") + payload
        except (asyncio.IncompleteReadError, ConnectionError):
            return found

    def close(self):
        self.writer.transport.abort()


async def test_a_command_runs_over_spdy(live, admin):
    spdy = await Spdy.open(live, live.token, f"{EXEC}?command=cat&stdin=1&stdout=1")
    for number, kind in ((1, "error"), (3, "stdin"), (5, "stdout")):
        spdy.syn(number, streamtype=kind)
    spdy.data(3, b"typed", 1)
    found = await spdy.until_end()
    spdy.close()
    assert found[5] == b"typed"
    assert orjson.loads(found[1])["status"] == "Success"


async def test_a_client_that_goes_leaves_nothing_behind(live, admin):
    before = live.ask(lambda cluster: cluster.guard.streams)
    spdy = await Spdy.open(live, live.token, f"{EXEC}?command=sleep&command=1000&stdout=1")
    spdy.syn(1, streamtype="error")
    spdy.syn(3, streamtype="stdout")
    await spdy.frame()
    spdy.close()
    async with admin.ws_connect(command("sleep", "1000", stdout=1), protocols=["v5.channel.k8s.io"]) as socket:
        await socket.receive()
    async with asyncio.timeout(30):
        while live.ask(lambda cluster: cluster.guard.streams) != before:
            await asyncio.sleep(0)
    worker = live.ask(lambda cluster: cluster.nodes._kubelets._workers["default/web"])
    async with asyncio.timeout(30):
        while live.ask(lambda cluster: len(worker.sandbox.boxes["main"].machine.processes)) > 1:
            await asyncio.sleep(0)


async def test_hostile_frames_end_only_their_connection(live, admin):
    bomb = zlib.compressobj(zdict=DICTIONARY)
    block = bomb.compress(bytes(20 << 20)) + bomb.flush(zlib.Z_SYNC_FLUSH)
    broken = [
        struct.pack(">HHI", 0x8003, 1, 10 + len(block)) + struct.pack(">IIH", 1, 0, 0) + block,
        struct.pack(">HHI", 0x8003, 1, 0xFFFFFF),
    ]
    meaningless = [b"GET / HTTP/1.1\r\n\r\n" * 100, bytes(range(256)) * 64]  # data for streams that are not there
    for attack in [*broken, *meaningless]:
        spdy = await Spdy.open(live, live.token, f"{EXEC}?command=cat&stdin=1&stdout=1")
        spdy.writer.write(attack)
        if attack in broken:
            async with asyncio.timeout(30):
                assert await spdy.until_end() == {}
        spdy.close()
    async with admin.get("/healthz") as answer:
        assert answer.status == 200


async def test_a_port_is_reached_over_spdy(live, admin):
    spdy = await Spdy.open(live, live.token, f"{PODS}/net/portforward", "portforward.k8s.io")
    for number, port in ((1, "8080"), (5, "81")):
        spdy.syn(number, streamtype="error", port=port, requestid=str(number))
        spdy.syn(number + 2, streamtype="data", port=port, requestid=str(number))
    spdy.data(3, b"GET /hostname HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    found = {}
    while b"net" not in found.get(3, b"") or b"refused" not in found.get(5, b""):
        kind, _, payload = await spdy.frame()
        found[kind] = found.get(kind, b"") + payload
    assert found[3].startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"error forwarding port 81 to pod " in found[5]
    spdy.close()


async def test_a_port_is_reached_over_websocket_channels(admin):
    async with admin.ws_connect(f"{PODS}/net/portforward?ports=8080", protocols=["v4.channel.k8s.io"]) as socket:
        await socket.send_bytes(b"\x00GET /hostname HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        found = await collect(socket)
    assert found[0].startswith(b"\x90\x1fHTTP/1.1 200 OK\r\n")
    assert found[0].endswith(b"net")


async def test_proxies_lead_to_pods_services_and_say_what_is_missing(admin):
    async with admin.get(f"{PODS}/net:8080/proxy/echo?msg=hi&code=202") as answer:
        assert (answer.status, await answer.text()) == (202, "hi")
    async with admin.get(f"{PODS}/net:8080/proxy", allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (301, f"{PODS}/net:8080/proxy/")
    async with admin.get(f"{PODS}/net:81/proxy/") as answer:
        assert answer.status == 503
        assert "error trying to reach service: dial tcp" in (await answer.json())["message"]
    service = {"metadata": {"name": "net"}, "spec": {"ports": [{"port": 80, "targetPort": 8080}]}}
    async with admin.post("/api/v1/namespaces/default/services", json=service) as answer:
        assert answer.status == 201
    async with admin.get("/api/v1/namespaces/default/services/net:99/proxy/") as answer:
        assert (await answer.json())["message"] == 'no service port 99 found for service "net"'
    async with admin.get("/api/v1/namespaces/default/services/nosuch/proxy/") as answer:
        assert (answer.status, (await answer.json())["message"]) == (404, 'services "nosuch" not found')
    async with admin.get("/api/v1/namespaces/default/services/a:b:c:d/proxy/") as answer:
        assert (answer.status, (await answer.json())["message"]) == (400, 'invalid service request "a:b:c:d"')


async def test_a_log_comes_over_a_websocket_too(admin):
    async with admin.get(f"{PODS}/net:8080/proxy/hostname") as answer:
        assert answer.status == 200
    async with admin.ws_connect(f"{PODS}/net/log", protocols=["binary.k8s.io"]) as socket:
        text = b"".join([message.data async for message in socket])
    assert b"GET /hostname" in text


async def test_a_short_log_comes_with_its_end_in_one_record(live, admin):
    async with admin.get(f"{PODS}/net:8080/proxy/hostname") as answer:
        assert answer.status == 200
    head = f"GET {PODS}/net/log HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {live.token}\r\n\r\n"

    def first_record():
        with socket.create_connection(("127.0.0.1", live.port)) as plain, insecure().wrap_socket(plain) as secure:
            secure.sendall(head.encode())
            return secure.recv(65536)  # never more than one record

    record = await asyncio.to_thread(first_record)
    assert record.startswith(b"HTTP/1.1 200 OK")
    assert b"GET /hostname" in record
    assert record.endswith(b"\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("tailLines=-1", "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("limitBytes=0", "limitBytes: Invalid value: 0: must be greater than 0"),
        ("sinceSeconds=0", "sinceSeconds: Invalid value: 0: must be greater than 0"),
        ("stream=Stdout", "stream: Forbidden: may not be specified"),
        (
            "sinceSeconds=5&sinceTime=2026-01-01T00:00:00Z",
            "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
    ],
)
async def test_log_options_are_checked_as_upstream_does(admin, query, text):
    async with admin.get(f"{PODS}/net/log?{query}") as answer:
        assert (answer.status, (await answer.json())["message"]) == (422, f'PodLogOptions "net" is invalid: {text}')


async def test_programs_in_pods_reach_the_api_with_their_own_account(live, admin):
    def machine(cluster):
        worker = cluster.nodes._kubelets._workers["default/net"]
        return worker.sandbox.boxes["main"].machine

    access = live.ask(machine).kube
    ask = asyncio.run_coroutine_threadsafe
    status, _, body = await asyncio.wrap_future(ask(access.request("GET", PODS), live.loop))
    user = "system:serviceaccount:default:default"
    assert (status, user in body.decode()) == (403, True)
    network = live.ask(machine).network
    found = network.http("GET", "https://kubernetes.default.svc/version", {}, b"")
    status, headers, body = await asyncio.wrap_future(ask(found, live.loop))
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert orjson.loads(body)["major"] == "1"


async def test_the_proxy_to_a_node_leads_to_its_kubelet(admin):
    async with admin.get("/api/v1/nodes") as answer:
        (node,) = [item["metadata"]["name"] for item in (await answer.json())["items"]]
    async with admin.get(f"/api/v1/nodes/{node}/proxy/healthz") as answer:
        assert (answer.status, await answer.text()) == (200, "ok")
    async with admin.get(f"/api/v1/nodes/{node}:10250/proxy/pods") as answer:
        assert {pod["metadata"]["name"] for pod in (await answer.json())["items"]} >= {"web", "net"}
    async with admin.get(f"/api/v1/nodes/{node}/proxy/containerLogs/default/none/main") as answer:
        assert answer.status == 400
