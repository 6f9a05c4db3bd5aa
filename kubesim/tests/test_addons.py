"""The GPU operator's pods and monitoring in a cluster: found, scraped, asked, and broken as people break them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

import orjson
import pytest

from kubesim import clusterfile
from kubesim.located import FileError
from kubesim.metrics.servers import Monitor
from kubesim.network.fabric import HttpServer, Request
from kubesim.shell.machine import Stdio
from kubesim.tests.containers import Sink
from kubesim.tests.installed import install
from kubesim.tests.test_gpu_containers import trainer
from kubesim.tests.world import World, pod, world


@pytest.fixture
async def monitored() -> AsyncIterator[World]:
    """A cluster of one node with both addons, and a training pod on two GPUs."""
    async with world(count=1) as w:
        await install(w, "gpu-operator", "metrics-server", "monitoring", seconds=0)
        await w.create("pods", pod("train", trainer(2)))
        await w.tick(90)
        yield w


async def prometheus(w: World) -> HttpServer:
    """Return what the one Prometheus answers with."""
    found = [p for p in await w.items("pods", "monitoring") if p["metadata"]["labels"]["app"] == "prometheus"]
    return w.kubelets.fabric.find(found[0]["status"]["podIP"], 9090)


async def ask(w: World, query: str) -> list[tuple[dict[str, str], float]]:
    server = await prometheus(w)
    answer = await server.respond(Request("GET", f"/api/v1/query?query={quote(query)}"))
    document = orjson.loads(answer.body)
    assert document["status"] == "success", document
    return [(item["metric"], float(item["value"][1])) for item in document["data"]["result"]]


async def test_every_pod_of_the_addons_is_ready(monitored):
    for namespace in ("gpu-operator", "monitoring"):
        found = await monitored.items("pods", namespace)
        assert found
        for item in found:
            ready = next(c["status"] for c in item["status"]["conditions"] if c["type"] == "Ready")
            assert ready == "True", item["metadata"]["name"]
    await monitored.check_models()


async def test_prometheus_knows_who_works_on_which_gpu(monitored):
    assert all(value == 1 for _, value in await ask(monitored, "up"))
    found = await ask(monitored, 'DCGM_FI_DEV_GPU_UTIL{pod="train"}')
    assert [metric["gpu"] for metric, _ in found] == ["0", "1"]
    assert all(value > 80 for _, value in found)
    assert await ask(monitored, 'kube_pod_status_phase{pod="train",phase="Running"} == 1')
    limit = await ask(monitored, 'kube_pod_container_resource_limits{resource="nvidia_com_gpu"}')
    assert [value for _, value in limit] == [2]


async def test_prometheus_knows_what_containers_use(monitored):
    rate = await ask(monitored, 'rate(container_cpu_usage_seconds_total{namespace="monitoring"}[1m])')
    assert {metric["container"] for metric, _ in rate} == {"prometheus", "kube-state-metrics", "node-exporter"}
    assert all(0 < value < 8 for _, value in rate)
    assert await ask(monitored, "machine_cpu_cores > 0")
    assert await ask(monitored, 'container_memory_working_set_bytes{pod="train"} > 0')


async def test_a_kubelet_shows_what_its_containers_use(monitored):
    (node,) = await monitored.items("nodes", "")
    address = next(item["address"] for item in node["status"]["addresses"] if item["type"] == "InternalIP")
    answer = await monitored.kubelets.fabric.find(address, 10250).respond(Request("GET", "/metrics/cadvisor"))
    assert b"# TYPE container_cpu_usage_seconds_total counter" in answer.body
    assert b'container_network_receive_bytes_total{interface="eth0",namespace="default",pod="train"}' in answer.body


async def test_metrics_are_lost_where_the_exporters_annotation_is(monitored):
    template = {"template": {"metadata": {"annotations": {"prometheus.io/scrape": None}}}}
    await monitored.client.patch("daemonsets.apps", "nvidia-dcgm-exporter", "gpu-operator", {"spec": template})
    await monitored.tick(90)
    assert await ask(monitored, "DCGM_FI_DEV_GPU_UTIL") == []
    assert [m["job"] for m, _ in await ask(monitored, 'up{job=~"kube.*"}')] == ["kube-state-metrics"]


async def test_metrics_are_lost_where_the_configuration_keeps_nothing(monitored):
    found = (await monitored.client.get("configmaps", "prometheus", "monitoring"))["data"]["prometheus.yml"]
    wrong = found.replace("prometheus_io_scrape", "prometheus_io_scraped")
    await monitored.client.patch("configmaps", "prometheus", "monitoring", {"data": {"prometheus.yml": wrong}})
    await monitored.tick(60)
    assert await ask(monitored, "DCGM_FI_DEV_GPU_UTIL") == []
    await monitored.client.patch("configmaps", "prometheus", "monitoring", {"data": {"prometheus.yml": found}})
    await monitored.tick(60)
    assert len(await ask(monitored, "DCGM_FI_DEV_GPU_UTIL")) == 8


async def test_an_xid_reaches_the_metrics_and_the_alerts(monitored):
    monitored.kubelets.gpus(monitored.node_names[0]).board.xid(0, 48, monitored.clock.now())
    await monitored.tick(30)
    assert [value for _, value in await ask(monitored, "DCGM_FI_DEV_XID_ERRORS > 0")] == [48]
    assert await ask(monitored, 'kube_pod_container_status_restarts_total{pod="train"}')


async def test_a_cluster_that_changes_each_second_is_searched_for_targets_every_five(monitored, monkeypatch):
    looks, find = [], Monitor.find
    monkeypatch.setattr(Monitor, "find", lambda self: looks.append(self) or find(self))
    for number in range(20):
        await monitored.create("pods", pod(f"other-{number}"))
        await monitored.tick(1)
    assert 2 <= len(looks) <= 4
    await monitored.tick(5)
    assert len(looks) <= 5


async def test_a_cluster_without_addons_follows_nothing():
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(1)))
        await w.tick(30)
        assert not w.kubelets.telemetry.following


async def test_addons_are_read_once_and_each_cluster_gets_its_own():
    names = ("gpu-operator", "kube-proxy")
    before = orjson.dumps([planned.obj for name in names for planned in clusterfile.addon(name)])
    for _ in range(2):
        async with world(count=1) as w:
            await install(w, *names, seconds=20)
            assert all(item["status"]["phase"] == "Running" for item in await w.items("pods", "gpu-operator"))
    assert orjson.dumps([planned.obj for name in names for planned in clusterfile.addon(name)]) == before


def test_a_cluster_file_names_what_kubesim_brings(tmp_path):
    file = tmp_path / "cluster.yaml"
    file.write_text("addons: [gpu-operator]\n", encoding="utf-8")
    kinds = {planned.obj["kind"] for planned in clusterfile.read(file).objects}
    assert {"Namespace", "DaemonSet", "Service"} <= kinds
    file.write_text("addons: [toaster]\n", encoding="utf-8")
    with pytest.raises(
        FileError, match=r'addons\[0\]: Unsupported value: "toaster": supported values: .*"coredns", .*"monitoring"'
    ):
        clusterfile.read(file)


async def targets(w: World) -> dict[str, tuple[str, str]]:
    """Return the health and the last error of each target, by its job."""
    server = await prometheus(w)
    document = orjson.loads((await server.respond(Request("GET", "/api/v1/targets"))).body)
    return {
        f"{item['labels']['job']} {item['scrapeUrl']}": (item["health"], item["lastError"])
        for item in document["data"]["activeTargets"]
    }


async def test_a_policy_before_an_exporter_is_a_deadline_that_passes(monitored):
    policies = "networkpolicies.networking.k8s.io"
    deny = {"metadata": {"name": "deny"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}
    await monitored.client.create(policies, deny, namespace="gpu-operator")
    await monitored.tick(30)
    (url, (health, error)) = next(item for item in (await targets(monitored)).items() if ":9400" in item[0])
    assert (health, error) == ("down", f'Get "{url.split()[1]}": context deadline exceeded')
    assert [value for metric, value in await ask(monitored, "up") if ":9400" in metric["instance"]] == [0]
    await monitored.client.delete(policies, "deny", "gpu-operator")
    await monitored.tick(30)
    assert all(health == "up" for health, _ in (await targets(monitored)).values())


async def test_a_policy_on_prometheus_keeps_it_from_everything_by_name_too(monitored):
    policies = "networkpolicies.networking.k8s.io"
    deny = {"metadata": {"name": "deny"}, "spec": {"podSelector": {"matchLabels": {"app": "prometheus"}}}}
    deny["spec"]["policyTypes"] = ["Egress"]
    await monitored.client.create(policies, deny, namespace="monitoring")
    await monitored.tick(30)
    found = await targets(monitored)
    assert all(health == "down" for health, _ in found.values())
    assert "lookup kube-state-metrics.monitoring.svc on 10.96.0.10:53: " in " ".join(e for _, e in found.values())


async def test_a_service_without_endpoints_refuses_prometheus(monitored):
    selector = {"spec": {"selector": {"app": "kube-state-metric"}}}
    await monitored.client.patch("services", "kube-state-metrics", "monitoring", selector)
    await monitored.tick(30)
    (error,) = [error for job, (_, error) in (await targets(monitored)).items() if job.startswith("kube-state")]
    assert error.endswith(":8080: connect: connection refused")
    await monitored.client.delete("services", "kube-state-metrics", "monitoring")
    await monitored.tick(30)
    (error,) = [error for job, (_, error) in (await targets(monitored)).items() if job.startswith("kube-state")]
    assert error.endswith("dial tcp: lookup kube-state-metrics.monitoring.svc on 10.96.0.10:53: no such host")


async def operated(w: World, prefix: str, *command: str) -> str:
    """Run a command in the first container of a pod of the operator's namespace."""
    found = next(p for p in await w.items("pods", "gpu-operator") if p["metadata"]["name"].startswith(prefix))
    out = Sink()
    await w.kubelets.containers.exec(found, found["spec"]["containers"][0]["name"], command)(Stdio(None, out, out))
    return out.data.decode()


async def test_the_gpu_operators_pods_see_the_devices_and_the_kernels_log_of_their_node():
    async with world(count=2) as w:
        await install(w, "gpu-operator", seconds=20)
        pods = await w.items("pods", "gpu-operator")
        assert all(c["ready"] for p in pods for c in p["status"]["containerStatuses"])
        for prefix in (
            "nvidia-driver",
            "nvidia-device-plugin",
            "nvidia-container-toolkit",
            "nvidia-operator-validator",
        ):
            assert "Driver Version: 580.95.05" in await operated(w, prefix, "nvidia-smi")
            assert "NVRM: loading NVIDIA UNIX Open Kernel Module" in await operated(w, prefix, "journalctl", "-k")


async def test_the_cluster_policy_tells_whether_every_part_of_the_operator_runs():
    async with world(count=1) as w:
        await install(w, "gpu-operator", seconds=20)
        (policy,) = await w.items("clusterpolicies.nvidia.com", "")
        assert policy["status"]["state"] == "ready"
        image = {
            "spec": {"template": {"spec": {"containers": [{"name": "nvidia-dcgm-exporter", "image": "no.such/x"}]}}}
        }
        await w.client.patch("daemonsets.apps", "nvidia-dcgm-exporter", "gpu-operator", image, patch_type="strategic")
        await w.tick(60)
        (policy,) = await w.items("clusterpolicies.nvidia.com", "")
        assert policy["status"]["state"] == "notReady"
        assert "[state-dcgm-exporter]" in policy["status"]["conditions"][0]["message"]


async def test_a_validator_fails_until_the_driver_is_loaded():
    async with world(count=1) as w:
        w.kubelets.gpus(w.node_names[0]).board.unload(w.clock.now(), "nvidia")
        await install(w, "gpu-operator", seconds=20)
        found = next(p for p in await w.items("pods", "gpu-operator") if "validator" in p["metadata"]["name"])
        assert found["status"]["containerStatuses"][0]["restartCount"] > 0
        assert (await w.items("clusterpolicies.nvidia.com", ""))[0]["status"]["state"] == "notReady"
