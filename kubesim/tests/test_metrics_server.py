"""What kubectl top asks: metrics-server's group, from the addon to the figures."""

from __future__ import annotations

import orjson
import pytest

from kubesim.network.fabric import Request
from kubesim.tests.installed import install
from kubesim.tests.world import World, container, pod, world

NODES = "/apis/metrics.k8s.io/v1beta1/nodes"


@pytest.fixture
async def measured():
    """A node with metrics-server, and a pod that may use little."""
    async with world(count=1) as w:
        await install(w, "metrics-server", seconds=0)
        small = {"limits": {"cpu": "500m", "memory": "1Gi"}}
        await w.create(
            "pods", pod("train", container("pytorch/pytorch:2.4.0", "python", "train.py", resources=small))
        )
        await w.tick(90)
        yield w


async def ask(w: World, target: str, status: int = 200):
    (found,) = [p for p in await w.items("pods", "kube-system") if p["metadata"]["name"].startswith("metrics-server")]
    answer = await w.kubelets.fabric.find(found["status"]["podIP"], 10250).respond(Request("GET", target))
    assert answer.status == status, answer.body
    return orjson.loads(answer.body)


async def test_it_tells_what_it_serves(measured):
    found = await ask(measured, "/apis/metrics.k8s.io/v1beta1")
    assert [entry["kind"] for entry in found["resources"]] == ["NodeMetrics", "PodMetrics"]


async def test_a_pod_uses_no_more_than_its_limits(measured):
    found = await ask(measured, "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/train")
    (used,) = [item["usage"] for item in found["containers"]]
    assert 0 < int(used["cpu"].removesuffix("n")) <= 500_000_000
    assert 0 < int(used["memory"].removesuffix("Ki")) < 1024 * 1024


async def test_pods_are_listed_by_namespace_and_label(measured):
    everywhere = await ask(measured, "/apis/metrics.k8s.io/v1beta1/pods")
    assert len(everywhere["items"]) == 2
    found = await ask(measured, "/apis/metrics.k8s.io/v1beta1/pods?labelSelector=app%3Dtrain")
    assert [item["metadata"]["name"] for item in found["items"]] == ["train"]
    assert (await ask(measured, "/apis/metrics.k8s.io/v1beta1/namespaces/nowhere/pods"))["items"] == []


async def test_a_node_uses_what_its_pods_and_its_own_services_use(measured):
    (node,) = (await ask(measured, NODES))["items"]
    pods = (await ask(measured, "/apis/metrics.k8s.io/v1beta1/pods"))["items"]
    used = sum(int(c["usage"]["cpu"].removesuffix("n")) for item in pods for c in item["containers"])
    assert int(node["usage"]["cpu"].removesuffix("n")) == pytest.approx(used + 190_000_000, rel=1e-6)


async def test_nobody_measures_what_is_not_there(measured):
    found = await ask(measured, f"{NODES}/nowhere", 404)
    assert found["message"] == 'nodes.metrics.k8s.io "nowhere" not found'
