"""Simulated nodes that join a cluster over HTTP: kubesim without nodes of its own plays the cluster."""

import asyncio
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import pytest
from aiohttp import ClientSession, TCPConnector

from kubesim.clock import ManualClock, RealClock, settle
from kubesim.errors import ApiError
from kubesim.nodes import access, certificates
from kubesim.nodes.access import Bearer
from kubesim.nodes.joined import Joined, Place, remove
from kubesim.nodes.marks import TAINT, Group
from kubesim.nodes.registration import Taken, Wanted
from kubesim.nodes.renewal import Renewal
from kubesim.overhttp import Unreachable
from kubesim.pools import Pool
from kubesim.tests.live import serving

GROUP = Group("test")
LISTED = (
    *("nodes", "pods", "leases.coordination.k8s.io", "serviceaccounts"),
    *("clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"),
    *("rolebindings.rbac.authorization.k8s.io", "certificatesigningrequests.certificates.k8s.io"),
)
TOLERATION = {"key": TAINT["key"], "operator": "Exists"}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("live"), nodes=0) as live:
        yield live


def place(count):
    sockets = []
    for _ in range(count):
        sockets.append(socket.socket())
        sockets[-1].bind(("127.0.0.1", 0))
    return Place(sockets)


@asynccontextmanager
async def administrator(live):
    clock = RealClock()
    client = (await access.load(live.kubeconfig, clock)).client(clock)
    try:
        yield client
    finally:
        await client.close()


async def made(live, nodes=1, group=GROUP, **more):
    clock = RealClock()
    wanted = Wanted(group, Pool(nodes, 8, name=group.name), "127.0.0.1", **more)
    return Joined(await access.load(live.kubeconfig, clock), wanted, place(nodes), clock)


@asynccontextmanager
async def joined(live, **more):
    nodes = await made(live, **more)
    try:
        await nodes.start()
        yield nodes
    finally:
        await nodes.stop()
        close(nodes)


def close(nodes):
    for found in nodes.place.sockets:
        found.close()


async def until(true, seconds=8):
    async with asyncio.timeout(seconds):
        while not (found := await true()):
            await asyncio.sleep(0.02)
        return found


def pod(name, *command, **spec):
    main = {"name": "main", "image": "busybox:1.36", "command": [*command]}
    spec = {"containers": [main], "tolerations": [TOLERATION], "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def running(client, name):
    async def phase():
        found = await client.get("pods", name, "default")
        return found if found.get("status", {}).get("phase") in ("Running", "Succeeded", "Failed") else None

    return await until(phase)


async def state_of(client):
    """Everything that joining could leave behind, by resource."""
    return {
        resource: {item["metadata"]["name"] for item in (await client.list(resource)).items} for resource in LISTED
    }


@asynccontextmanager
async def kubelet(nodes, token=""):
    """Requests to the port of the first node's kubelet."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"https://127.0.0.1:{nodes.place.ports[0]}"
    connector = TCPConnector(ssl=False)
    async with ClientSession(url, connector=connector, headers=headers) as session:
        yield session
        await connector.close(abort_ssl=True)
    await settle(5)


async def test_nodes_register_tainted_with_their_gpus_and_an_own_port(live):
    async with administrator(live) as client, joined(live, nodes=2) as nodes:
        found = (await client.list("nodes", label_selector=GROUP.selector)).items
        ports = [node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] for node in found]
        assert [node["metadata"]["name"] for node in found] == ["test-0", "test-1"]
        assert sorted(ports) == sorted(nodes.place.ports)
        assert TAINT in found[0]["spec"]["taints"]
        assert found[0]["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert found[0]["spec"]["providerID"] == "kubesim://test-0"
        ready = {c["type"]: c["status"] for c in found[0]["status"]["conditions"]}
        assert ready["Ready"] == "True"


async def test_a_pod_runs_and_its_config_map_is_read_with_the_nodes_right(live):
    async with administrator(live) as client, joined(live):
        await client.create(
            "configmaps", {"metadata": {"name": "greeting"}, "data": {"text": "hello"}}, namespace="default"
        )
        wanted = pod("reader", "sh", "-c", "echo $TEXT > /dev/termination-log", restartPolicy="Never")
        source = {"configMapKeyRef": {"name": "greeting", "key": "text"}}
        wanted["spec"]["containers"][0]["env"] = [{"name": "TEXT", "valueFrom": source}]
        await client.create("pods", wanted)

        async def ended():
            found = await client.get("pods", "reader", "default")
            return found if found["status"].get("phase") == "Succeeded" else None

        found = await until(ended)
        assert found["status"]["containerStatuses"][0]["state"]["terminated"]["message"] == "hello\n"
        assert found["status"]["podIP"].startswith("10.64.0.")


async def test_a_deleted_pod_goes_when_its_kubelet_has_ended_it(live):
    async with administrator(live) as client, joined(live):
        await client.create("pods", pod("short", "sleep", "1000"))
        await running(client, "short")
        await client.delete("pods", "short", "default")

        async def gone():
            return "short" not in {item["metadata"]["name"] for item in (await client.list("pods")).items}

        await until(gone)


async def test_an_untainted_node_takes_any_pod(live):
    async with administrator(live) as client, joined(live, tainted=False):
        await client.create("pods", pod("plain", "sleep", "1000", tolerations=[]))
        assert (await running(client, "plain"))["spec"]["nodeName"] == "test-0"


async def test_a_clusters_own_agents_seem_to_run_whatever_their_images_are(live):
    image = "registry.example/agents/network:v1"
    probe = {"exec": {"command": ["/bin/healthy"]}, "periodSeconds": 1, "failureThreshold": 1}
    template = {
        "metadata": {"labels": {"app": "agent"}},
        "spec": {
            "tolerations": [{"operator": "Exists"}],
            "initContainers": [{"name": "install", "image": image, "command": ["/install"]}],
            "containers": [{"name": "agent", "image": image, "livenessProbe": probe}],
        },
    }
    agents = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template},
    }
    async with administrator(live) as client, joined(live):
        await client.create("daemonsets.apps", agents, namespace="default")

        async def ready():
            found = await client.get("daemonsets.apps", "agent", "default")
            return found.get("status", {}).get("numberReady") == 1

        await until(ready)
        await client.delete("daemonsets.apps", "agent", "default")


async def test_the_kubelets_port_serves_logs_metrics_and_the_list_of_pods(live):
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(administrator(live))
        nodes = await stack.enter_async_context(joined(live))
        http = await stack.enter_async_context(kubelet(nodes, live.token))
        await client.create("pods", pod("talker", "sh", "-c", "echo one; echo two; sleep 1000"))
        await running(client, "talker")

        async def text(path):
            async with http.get(path) as answer:
                assert answer.status == 200, path
                return await answer.text()

        assert await until(lambda: text("/containerLogs/default/talker/main?tailLines=1")) == "two\n"
        assert await text("/healthz") == "ok"
        assert '"name":"talker"' in await text("/pods")
        assert 'container_memory_working_set_bytes{container="main"' in await text("/metrics/cadvisor")
        assert 'pod_cpu_usage_seconds_total{namespace="default",pod="talker"}' in await text("/metrics/resource")
        assert 'kubelet_node_name{node="test-0"} 1' in await text("/metrics")
        assert '"nodeName": "test-0"' in await text("/stats/summary")
        assert "KubeletConfiguration" in await text("/configz")
        async with http.get("/containerLogs/default/nobody/main") as answer:
            assert (answer.status, await answer.text()) == (404, 'pods "nobody" not found\n')


async def test_a_command_runs_in_a_container_over_the_kubelets_port(live):
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(administrator(live))
        nodes = await stack.enter_async_context(joined(live))
        http = await stack.enter_async_context(kubelet(nodes, live.token))
        await client.create("pods", pod("entered", "sleep", "1000"))
        await running(client, "entered")
        path = "/exec/default/entered/main?output=1&error=1&command=echo&command=inside"
        async with http.ws_connect(path, protocols=("v4.channel.k8s.io",)) as sock:
            said = b"".join([message.data async for message in sock if message.data[:1] == b"\x01"])
        assert said.replace(b"\x01", b"") == b"inside\n"


async def test_nobody_uses_the_kubelets_port_without_the_right_to(live):
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(administrator(live))
        nodes = await stack.enter_async_context(joined(live))
        review = {"metadata": {"name": "default"}, "spec": {}}
        token = (await client.create("serviceaccounts", review, namespace="default", subresource="token"))["status"]
        stranger = await stack.enter_async_context(kubelet(nodes, token["token"]))
        for known, code in ((stranger, 403), (await stack.enter_async_context(kubelet(nodes)), 401)):
            async with known.get("/pods") as answer:
                assert answer.status == code
        async with stranger.get("/metrics") as answer:
            assert await answer.text() == (
                "Forbidden (user=system:serviceaccount:default:default, verb=get, resource=nodes, "
                "subresource(s)=[metrics])\n"
            )


async def test_a_node_reads_no_secret_of_pods_that_are_not_its_own(live):
    async with administrator(live) as client, joined(live, nodes=2) as nodes:
        for name in ("mine", "theirs"):
            await client.create("secrets", {"metadata": {"name": name}}, namespace="default")
        wanted = pod("owner", "sleep", "1000", nodeName="test-0")
        wanted["spec"]["volumes"] = [{"name": "v", "secret": {"secretName": "mine"}}]
        await client.create("pods", wanted)
        first, second = (node.client for node in nodes.nodes)
        assert (await first.get("secrets", "mine", "default"))["metadata"]["name"] == "mine"
        for user, name in ((first, "theirs"), (second, "mine")):
            with pytest.raises(ApiError) as refused:
                await user.get("secrets", name, "default")
            assert refused.value.code == 403
        with pytest.raises(ApiError, match='node "test-0" is not allowed to modify node "test-1"'):
            await first.patch("nodes", "test-1", "", {"metadata": {"labels": {"mine": "too"}}})
        with pytest.raises(ApiError, match="is not allowed to modify taints"):
            await first.patch("nodes", "test-0", "", {"spec": {"taints": []}})
        with pytest.raises(ApiError, match="cannot list resource"):
            await first.list("pods")


async def test_a_certificate_is_renewed_while_the_node_goes_on(live):
    async with administrator(live) as client, joined(live) as nodes:
        await client.create("pods", pod("lasting", "sleep", "1000"))
        await running(client, "lasting")
        until = await nodes._renew(nodes.nodes[0])
        assert (until - nodes.clock.now()).days > 300
        await client.create("pods", pod("later", "sleep", "1000"))
        await running(client, "later")


async def test_a_renewal_comes_when_four_fifths_are_over_and_is_tried_again():
    clock, tried = ManualClock(), []

    async def renew():
        tried.append(clock.now())
        if len(tried) == 1:
            raise Unreachable("away")
        return clock.now() + timedelta(hours=100)

    start = clock.now()
    renewal = Renewal(clock, start + timedelta(hours=100), renew)
    await clock.advance(200 * 3600)
    await renewal.stop()
    assert [(at - start) / timedelta(hours=1) for at in tried] == [80.0, 96.0, 176.0]


async def test_leaving_leaves_no_trace(live):
    async with administrator(live) as client:
        before = await state_of(client)
        async with joined(live):
            await client.create("pods", pod("left", "sleep", "1000"))
            await running(client, "left")
            assert await state_of(client) != before
        assert await state_of(client) == before


async def test_the_next_start_removes_what_a_killed_one_left(live):
    async with administrator(live) as client:
        before = await state_of(client)
        killed = await made(live)
        await killed.start()
        await client.create("pods", pod("orphan", "sleep", "1000"))
        await running(client, "orphan")
        killed.lost.set()  # so that it ends without removing anything, as after a SIGKILL
        await killed.stop()
        close(killed)
        assert "test-0" in (await state_of(client))["nodes"]
        async with joined(live):
            assert "orphan" not in (await state_of(client))["pods"]
        assert await state_of(client) == before


async def test_what_a_killed_one_left_is_removed_when_asked_for(live):
    async with administrator(live) as client:
        before = await state_of(client)
        killed = await made(live)
        await killed.start()
        killed.lost.set()
        await killed.stop()
        close(killed)
        assert await remove(killed.access, GROUP, RealClock()) == ["test-0"]
        assert await state_of(client) == before


async def test_a_second_one_of_the_same_group_takes_over(live):
    first = await made(live)
    await first.start()
    async with joined(live):
        async with asyncio.timeout(5):
            await first.lost.wait()
        await first.stop()
        close(first)
        async with administrator(live) as client:
            assert (await client.get("nodes", "test-0"))["metadata"]["name"] == "test-0"


async def test_a_node_of_somebody_else_is_left_alone(live):
    async with administrator(live) as client:
        await client.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "test-0"}})
        nodes = await made(live)
        with pytest.raises(Taken, match="the cluster has a node test-0 that is not ours"):
            await nodes.start()
        await nodes.stop()
        close(nodes)
        await client.delete("nodes", "test-0")


async def test_a_request_that_nobody_approves_is_told(live):
    async with administrator(live) as client:
        wanted = certificates.serving_request("lonely", "test-9", GROUP.labels, ["test-9"])
        stranger = (await access.load(live.kubeconfig, RealClock())).as_bearer(Bearer("")).client(RealClock())
        with pytest.raises(certificates.NotSigned, match="was approved by nobody"):
            await certificates.obtain(client, stranger, wanted, 0.2, patient=True)
        await stranger.close()
        await client.delete(certificates.REQUESTS, "lonely")
