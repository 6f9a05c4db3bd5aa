"""Simulated nodes that join a cluster over HTTP: kubesim without nodes of its own plays the cluster."""

from contextlib import AsyncExitStack
from ipaddress import ip_address, ip_network

import pytest

from kubesim.clock import RealClock
from kubesim.errors import ApiError
from kubesim.network.fabric import Request
from kubesim.nodes import access, certificates, registration
from kubesim.nodes.access import Bearer
from kubesim.nodes.account import TAINT, Group
from kubesim.nodes.joined import Joined
from kubesim.pools import Pool
from kubesim.tests.joining import (
    GROUP,
    administrator,
    close,
    joined,
    kubelet,
    place,
    pod,
    running,
    state_of,
    until,
)
from kubesim.tests.live import serving


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("live"), nodes=0) as live:
        yield live


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
        assert ip_address(found["status"]["podIP"]) in ip_network(registration.cidr(GROUP, 0))


def test_pods_of_joined_nodes_have_addresses_of_their_own():
    own = ip_network("10.64.0.0/10")
    ranges = [ip_network(registration.cidr(Group(group), node)) for group in ("a", "b") for node in range(1000)]
    assert len({*ranges}) == 2000
    assert not any(found.overlaps(own) for found in ranges)


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


async def test_a_program_in_a_pod_acts_with_the_rights_of_its_account(live):
    """A node may list no deployments: what this page tells of them was read with a token of the pod's account."""
    rules = [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list", "watch"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads-deployments"}
    subject = {"kind": "ServiceAccount", "name": "metrics", "namespace": "default"}
    template = {
        "metadata": {"labels": {"app": "idle"}},
        "spec": {"containers": [{"name": "a", "image": "busybox:1.36"}]},
    }
    idle = {"replicas": 0, "selector": {"matchLabels": {"app": "idle"}}, "template": template}
    named = {"metadata": {"name": "reads-deployments"}}
    wanted = pod("metrics", "kube-state-metrics", serviceAccountName="metrics")
    wanted["spec"]["containers"][0]["image"] = "registry.k8s.io/kube-state-metrics/kube-state-metrics:v2.17.0"
    async with administrator(live) as client, joined(live) as nodes:
        await client.create("serviceaccounts", {"metadata": {"name": "metrics"}}, namespace="default")
        await client.create("clusterroles.rbac.authorization.k8s.io", {**named, "rules": rules})
        await client.create(
            "clusterrolebindings.rbac.authorization.k8s.io", {**named, "roleRef": role, "subjects": [subject]}
        )
        await client.create("deployments.apps", {"metadata": {"name": "idle"}, "spec": idle}, namespace="default")
        await client.create("pods", wanted)
        address = (await running(client, "metrics"))["status"]["podIP"]

        async def told():
            answer = await nodes.fabric.find(address, 8080).respond(Request("GET", "/metrics"))
            return b'deployment="idle"' in answer.body

        await until(told)
        for resource in ("clusterroles", "clusterrolebindings"):
            await client.delete(f"{resource}.rbac.authorization.k8s.io", "reads-deployments")


async def test_nodes_of_several_kinds_join_as_one_group_with_images_on_their_disks(live):
    clock = RealClock()
    kinds = (Pool(1, 8, name="large"), Pool(2, 4, "T4", name="small", labels={"tier": "small"}))
    wanted = registration.Wanted(GROUP, kinds, "127.0.0.1", images=("quay.io/house/trainer:1",))
    nodes = Joined(await access.load(live.kubeconfig, clock), wanted, place(3), clock)
    async with administrator(live) as client:
        try:
            await nodes.start()
            found = {item["metadata"]["name"]: item for item in (await client.list("nodes")).items}
            gpus = {name: item["status"]["allocatable"]["nvidia.com/gpu"] for name, item in found.items()}
            assert gpus == {"large-0": "8", "small-0": "4", "small-1": "4"}
            assert found["small-1"]["metadata"]["labels"]["tier"] == "small"
            images = [name for each in found["small-1"]["status"]["images"] for name in each["names"]]
            assert "quay.io/house/trainer:1" in images
        finally:
            await nodes.stop()
            close(nodes)


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


async def test_a_node_gets_no_token_but_for_its_own_pods_and_makes_no_pod(live):
    async with administrator(live) as client, joined(live, nodes=2) as nodes:
        first, second = (node.client for node in nodes.nodes)
        own = await client.create("pods", pod("own", "sleep", "1000", nodeName="test-0"), namespace="default")
        await client.create("pods", pod("other", "sleep", "1000", nodeName="test-1"), namespace="default")
        bound = {"apiVersion": "v1", "kind": "Pod", "name": "own"}

        async def token(node, reference):
            wanted = {"metadata": {"name": "default"}, "spec": {"boundObjectRef": reference}}
            return await node.create("serviceaccounts", wanted, namespace="default", subresource="token")

        uid = own["metadata"]["uid"]
        assert (await token(first, bound | {"uid": uid}))["status"]["token"]
        for node, reference, why in (
            (first, None, "token not bound to a pod"),
            (first, {"kind": ["Pod"], "apiVersion": {}, "name": 3}, "token not bound to a pod"),
            (first, bound, "a pod binding without a uid"),
            (second, bound | {"uid": uid}, "bound to a pod scheduled on a different node"),
        ):
            with pytest.raises(ApiError, match=f'serviceaccounts "default" is forbidden: node requested.* {why}'):
                await token(node, reference)
        mirror = pod("mirror", "sleep", "1000", nodeName="test-1")
        for notes in ({}, {"kubernetes.io/config.mirror": "x"}):
            mirror["metadata"]["annotations"] = notes
            with pytest.raises(ApiError, match='node "test-1" can (not|only) create mirror pods'):
                await second.create("pods", mirror, namespace="default")


async def test_where_nodes_get_no_certificates_the_account_has_their_role_and_a_line_says_so(
    live, monkeypatch, caplog
):
    async def unsigned(*args, **options):
        raise certificates.NotSigned("the request was approved but not signed within 30 s")

    monkeypatch.setattr(certificates, "obtain", unsigned)
    async with administrator(live) as client:
        before = await state_of(client)
        async with joined(live, nodes=2):
            await client.create("pods", pod("wide", "sleep", "1000"))
            await running(client, "wide")
            bindings = (await state_of(client))["clusterrolebindings.rbac.authorization.k8s.io"]
            assert "kubesim-nodes-test-as-node" in bindings
        assert await state_of(client) == before
    assert "has the rights of the role system:node on every object of the cluster" in caplog.text


async def test_a_request_that_nobody_approves_is_told(live):
    async with administrator(live) as client:
        wanted = certificates.serving_request("lonely", "test-9", GROUP.labels, ["test-9"])
        stranger = (await access.load(live.kubeconfig, RealClock())).as_bearer(Bearer("")).client(RealClock())
        with pytest.raises(certificates.NotSigned, match="was approved by nobody"):
            await certificates.obtain(client, stranger, wanted, 0.2, patient=True)
        await stranger.close()
        await client.delete(certificates.REQUESTS, "lonely")


async def test_a_program_on_one_node_boots_another_of_its_group(live):
    """As NVSentinel's janitor does, which runs on any of them."""
    async with joined(live, nodes=2) as nodes:
        first, second = (node.kubelets.machines for node in nodes.nodes)
        first.reboot("test-1")
        assert (first.silent("test-0"), second.silent("test-1")) == (False, True)
        assert first.gpus("test-1") is second.gpus("test-1")
        with pytest.raises(KeyError):
            first.reboot("elsewhere")
