"""The Prometheus operator: what is scraped is what monitors select, and nothing else."""

from __future__ import annotations

from urllib.parse import quote

import orjson
import pytest

from kubesim.network.fabric import Request
from kubesim.tests.installed import install
from kubesim.tests.test_gpu_containers import trainer
from kubesim.tests.world import pod, world

MONITORS, RULES = "servicemonitors.monitoring.coreos.com", "prometheusrules.monitoring.coreos.com"


@pytest.fixture
async def observed():
    async with world(count=1) as w:
        await install(w, "gpu-operator", "monitoring", "prometheus-operator")
        await w.create("pods", pod("train", trainer(2)))
        await w.tick(120)
        yield w


async def get(w, path):
    (found,) = [p for p in await w.items("pods", "observability") if p["metadata"]["name"] == "prometheus-k8s-0"]
    server = w.kubelets.fabric.find(found["status"]["podIP"], 9090)
    return orjson.loads((await server.respond(Request("GET", f"/api/v1/{path}"))).body)["data"]


async def ask(w, query):
    return [item["metric"] for item in (await get(w, f"query?query={quote(query)}"))["result"]]


async def alerts(w):
    return [item["labels"]["alertname"] for item in (await get(w, "alerts"))["alerts"]]


async def test_monitors_bring_their_services_metrics(observed):
    found = await ask(observed, 'DCGM_FI_DEV_GPU_UTIL{pod="train"} > 80')
    assert [metric["gpu"] for metric in found] == ["0", "1"]
    assert {metric["job"] for metric in await ask(observed, "up == 1")} == {
        "nvidia-dcgm-exporter",
        "kube-state-metrics",
        "prometheus-node-exporter",
    }
    assert await ask(observed, "kube_node_info")


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"labels": {"release": "other"}}},
        {"spec": {"selector": {"matchLabels": {"app": "nvidia-dcgm"}}}},
        {"spec": {"namespaceSelector": {"matchNames": ["gpu"]}}},
        {"spec": {"endpoints": [{"port": "metrics"}]}},
    ],
    ids=["its label", "its selector", "its namespace", "its port"],
)
async def test_a_monitor_that_is_wrong_brings_nothing(observed, patch):
    await observed.client.patch(MONITORS, "nvidia-dcgm-exporter", "observability", patch)
    await observed.tick(60)
    assert await ask(observed, "DCGM_FI_DEV_GPU_UTIL") == []
    assert await ask(observed, "kube_node_info")


async def test_a_services_label_is_what_a_monitor_finds_it_by(observed):
    await observed.client.patch(
        "services", "nvidia-dcgm-exporter", "gpu-operator", {"metadata": {"labels": {"app": "x"}}}
    )
    await observed.tick(60)
    assert await ask(observed, "DCGM_FI_DEV_GPU_UTIL") == []


async def test_rules_become_alerts(observed):
    observed.kubelets.gpus(observed.node_names[0]).board.xid(5, 95, observed.clock.now())
    await observed.tick(60)
    assert await alerts(observed) == ["GpuXidError"]
    await observed.client.delete(RULES, "gpus", "observability")
    await observed.tick(60)
    assert await alerts(observed) == []


async def test_without_the_operator_a_change_has_no_effect(observed):
    none = {"spec": {"replicas": 0}}
    await observed.client.patch("deployments.apps", "prometheus-operator", "observability", none)
    await observed.tick(40)
    await observed.client.delete(MONITORS, "nvidia-dcgm-exporter", "observability")
    await observed.tick(60)
    assert await ask(observed, "DCGM_FI_DEV_GPU_UTIL")
