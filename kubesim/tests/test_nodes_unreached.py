"""Nodes whose kubelets run elsewhere: the API server says that it does not reach them, and leads nowhere."""

import socket
from contextlib import asynccontextmanager

import orjson
import pytest

from kubesim.tests.live import serving
from kubesim.tests.test_streams import PODS, collect

NODES = "/api/v1/nodes"
UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"}
FORWARD = UPGRADE | {"X-Stream-Protocol-Version": "portforward.k8s.io"}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("unreached"), nodes=0) as live:
        yield live


@pytest.fixture
async def admin(live):
    async with live.client() as client:
        yield client


async def message(client, path, **how):
    """Return the code, the reason and the message of a refusal."""
    async with client.request(how.pop("method", "GET"), path, **how) as answer:
        told = orjson.loads(await answer.read())
        return answer.status, told.get("reason", ""), told["message"]


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


@pytest.mark.parametrize("address", [("InternalIP", "127.0.0.1"), ("Hostname", "localhost"), ("ExternalIP", "::1")])
async def test_no_node_leads_out_of_the_process_and_gos_words_say_so(admin, address):
    """Whoever may register a node would otherwise choose what the server connects to."""
    with socket.create_server(("localhost", 0)) as trap:
        trap.setblocking(False)
        port, host = trap.getsockname()[1], address[1]
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        why = f"dial tcp {place}: connect: network is unreachable"
        async with placed(admin, "far", port, address):
            log = f'Get "https://{place}/containerLogs/default/far/main?tailLines=3": {why}'
            assert await message(admin, f"{PODS}/far/log?tailLines=3") == (500, "", log)
            path = f"{PODS}/far/exec?command=ls&command=a%20b&stdout=1"
            refused = 500, "", f"error dialing backend: {why}"
            assert await message(admin, path, method="POST", headers=UPGRADE) == refused
            assert await message(admin, f"{PODS}/far/portforward", method="POST", headers=FORWARD) == refused
            async with admin.ws_connect(path, protocols=["v5.channel.k8s.io"]) as stream:
                status = orjson.loads((await collect(stream))[3])
            url = f"https://{place}/exec/default/far/main?command=ls&command=a+b&output=1"
            assert status["message"] == f'Internal error occurred: error sending request: Post "{url}": {why}'
            for node in ("far", f"far:{port}", f"http:far:{port}"):
                assert (await message(admin, f"{NODES}/{node}/proxy/"))[0] in (400, 503)
        with pytest.raises(BlockingIOError):
            trap.accept()


async def test_a_node_without_a_fitting_address_is_told(admin):
    why = "no preferred addresses found; known addresses: [{InternalDNS a.b} {ExternalDNS c.d}]"
    async with placed(admin, "odd", 1, ("InternalDNS", "a.b"), ("ExternalDNS", "c.d")):
        for path in (f"{PODS}/odd/log", f"{PODS}/odd/exec?command=ls&stdout=1", f"{NODES}/odd/proxy/"):
            assert await message(admin, path) == (500, "", why)


async def test_a_proxy_leads_to_no_loopback_address(admin):
    async with placed(admin, "loop", 80, ("InternalIP", "127.0.0.1")):
        for node in ("loop", "loop:80", "http:loop:80"):
            assert await message(admin, f"{NODES}/{node}/proxy/") == (400, "BadRequest", "address not allowed")
