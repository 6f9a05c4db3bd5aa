"""node_exporter: what it says of a node is what its shells and kubectl top say, and it breaks as exporters do."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from kubesim.kubelet.usage import Ledger
from kubesim.metrics.exposition import written
from kubesim.network.fabric import Request
from kubesim.shell.vitals import Vitals
from kubesim.tests.containers import run
from kubesim.tests.installed import install
from kubesim.tests.test_addons import ask, targets
from kubesim.tests.test_gpu_containers import trainer
from kubesim.tests.world import World, pod, world

MIB = 1 << 20


@pytest.fixture
async def watched() -> AsyncIterator[World]:
    """A cluster of one node with monitoring, in which somebody trains and a shell stands open."""
    async with world(count=1) as w:
        await install(w, "gpu-operator", "metrics-server", "monitoring", seconds=0)
        await w.create("pods", pod("train", trainer(2)))
        shell = {"name": "main", "image": "ubuntu:24.04", "command": ["sleep", "9999"]}
        await w.create("pods", pod("shell", shell))
        await w.tick(400)
        yield w


async def one(w: World, query: str) -> float:
    ((_, value),) = await ask(w, query)
    return value


async def said(w: World, command: str) -> str:
    """Return what a command prints in a container of the node."""
    return (await run(w, "shell", "sh", "-c", command))[1]


async def test_memory_is_that_of_free_and_of_kubectl_top(watched):
    total, available = (
        await one(watched, "node_memory_MemTotal_bytes"),
        await one(watched, "node_memory_MemAvailable_bytes"),
    )
    words = re.search(r"Mem:\s+(\d+)\s+(\d+)", await said(watched, "free -m"))
    assert int(words[1]) == int(total / MIB)
    assert int(words[2]) == pytest.approx((total - available) / MIB, rel=0.02)
    (node,) = await watched.items("nodes", "")
    address = next(item["address"] for item in node["status"]["addresses"] if item["type"] == "InternalIP")
    answer = await watched.kubelets.fabric.find(address, 10250).respond(Request("GET", "/metrics/resource"))
    used = float(re.search(r"^node_memory_working_set_bytes (\S+)", answer.body.decode(), re.M)[1])
    assert used == pytest.approx(total - available, rel=0.02)


async def test_loads_and_uptime_are_those_of_uptime(watched):
    words = re.search(r"up (\d+) days.*load average: ([\d.]+), ([\d.]+), ([\d.]+)", await said(watched, "uptime"))
    assert int(words[1]) == int(await one(watched, "(node_time_seconds - node_boot_time_seconds) / 86400"))
    for column, name in ((2, "node_load1"), (3, "node_load5"), (4, "node_load15")):
        assert float(words[column]) == pytest.approx(await one(watched, name), rel=0.1)


async def test_the_disk_is_as_full_as_df_says(watched):
    rows = (await said(watched, "df -k /")).splitlines()[1].split()
    size = await one(watched, 'node_filesystem_size_bytes{mountpoint="/"}')
    free = await one(watched, 'node_filesystem_avail_bytes{mountpoint="/"}')
    assert [int(rows[1]), int(rows[3])] == [int(size / 1024), int(free / 1024)]
    await said(watched, "head -c 20000000 /dev/zero > /large")
    await watched.tick(60)
    less = free - await one(watched, 'node_filesystem_avail_bytes{mountpoint="/"}')
    assert 20_000_000 <= less < 25_000_000
    assert await one(watched, 'node_filesystem_avail_bytes{mountpoint="/"} offset 75s') == free


async def test_processors_spend_in_all_modes_the_time_that_passes(watched):
    cores = await one(watched, 'sum(rate(node_cpu_seconds_total{mode!="idle"}[2m]))')
    pods = await one(watched, "sum(rate(container_cpu_usage_seconds_total[2m]))")
    assert pods < cores < pods + 0.4
    every = await one(watched, "sum(rate(node_cpu_seconds_total[2m]))")
    assert every == pytest.approx(await one(watched, 'count(node_cpu_seconds_total{mode="idle"})'), rel=1e-3)


async def test_counters_do_not_fall_when_a_pod_is_gone(watched):
    before = await one(watched, 'sum(node_cpu_seconds_total{mode="user"})')
    await watched.client.delete("pods", "train", "default")
    await watched.tick(60)
    assert await one(watched, 'sum(node_cpu_seconds_total{mode="user"})') > before
    assert await one(watched, "max(resets(node_network_receive_bytes_total[5m]))") == 0


async def test_every_series_has_the_name_and_type_of_its_page(watched):
    (node,) = await watched.items("nodes", "")
    address = next(item["address"] for item in node["status"]["addresses"] if item["type"] == "InternalIP")
    server = watched.kubelets.fabric.find(address, 9100)
    page = (await server.respond(Request("GET", "/metrics"))).body.decode()
    names = set(re.findall(r"^([a-zA-Z_]\w*)", page, re.MULTILINE))
    assert names == {metric["__name__"] for metric, _ in await ask(watched, '{__name__=~"node_.+"}')}
    assert all(kind == "counter" for kind in re.findall(r"# TYPE \w+_total (\w+)", page))
    assert f'nodename="{node["metadata"]["name"]}"' in page
    assert b"/metrics" in (await server.respond(Request("GET", "/"))).body


async def test_its_series_are_lost_with_its_service_or_its_pods(watched):
    assert await ask(watched, "node_load1")
    await watched.client.patch(
        "services", "prometheus-node-exporter", "monitoring", {"spec": {"selector": {"app": "node-exporter"}}}
    )
    await watched.tick(30)
    assert await ask(watched, "node_load1") == []
    assert await ask(watched, 'up{job="node-exporter"}') == []


async def test_a_node_whose_exporter_does_not_start_is_down(watched):
    exporter = await watched.client.get("daemonsets.apps", "prometheus-node-exporter", "monitoring")
    (container,) = exporter["spec"]["template"]["spec"]["containers"]
    wrong = {**container, "image": "quay.io/prometheus/node-exporter:v0.0.1"}
    template = {"template": {"spec": {"containers": [wrong]}}}
    await watched.client.patch("daemonsets.apps", "prometheus-node-exporter", "monitoring", {"spec": template})
    await watched.tick(90)
    (found,) = [error for name, (_, error) in (await targets(watched)).items() if name.startswith("node-exporter")]
    assert found.endswith(":9100: connect: connection refused")
    assert await ask(watched, "node_load1") == []


def test_a_rebooted_node_counts_anew():
    booted = [0.0]
    ledger = Ledger(tuple, {"cpu": "4", "memory": "1Gi"}, lambda: booted[0])
    ledger.look(1000.0)
    busy = ledger.at(1000.0).busy_s
    booted[0] = 2000.0
    ledger.look(2010.0)
    assert 0 < ledger.at(2010.0).busy_s < busy
    assert ledger.at(2010.0).up_s == 10


def test_what_is_full_leaves_nothing_free():
    full = Vitals(memory=1000 * MIB, used=1000 * MIB, cpus=2, up_s=10)
    assert (full.cached, full.free, full.available) == (0, 0, 0)
    assert full.meminfo()["MemFree"] == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.25, "0.25"), (123456.0, "123456"), (1e6, "1e+06"), (1794463970.0, "1.79446397e+09"),
     (1e-5, "1e-05"), (-2.5e6, "-2.5e+06"), (float("nan"), "NaN"), (float("-inf"), "-Inf")],
)  # fmt: skip
def test_a_page_writes_numbers_as_go_does(value, text):
    assert written(value) == text
