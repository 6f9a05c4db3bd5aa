"""Quotas with scopes, of services and of storage, and what a change adds."""

from __future__ import annotations

import pytest

from kubesim.errors import ApiError
from kubesim.tests.world import container, pod, world

LIMITED = container("busybox:1.36", "sleep", "600", resources={"requests": {"cpu": "1"}})


async def quota(cluster, name="q", **spec):
    await cluster.create("resourcequotas", {"metadata": {"name": name}, "spec": spec})


async def used(cluster, name="q"):
    await cluster.tick(1)
    return (await cluster.client.get("resourcequotas", name, "default"))["status"]["used"]


@pytest.mark.parametrize(
    ("scope", "first", "second"),
    [
        ("BestEffort", pod("a"), pod("b", LIMITED)),
        ("NotBestEffort", pod("a", LIMITED), pod("b")),
        ("Terminating", pod("a", activeDeadlineSeconds=60), pod("b")),
        ("NotTerminating", pod("a"), pod("b", activeDeadlineSeconds=60)),
    ],
)
async def test_a_scope_counts_only_the_pods_that_it_means(scope, first, second):
    async with world(1) as cluster:
        await quota(cluster, hard={"pods": "1"}, scopes=[scope])
        await cluster.create("pods", first)
        await cluster.create("pods", second)
        assert await used(cluster) == {"pods": "1"}
        with pytest.raises(ApiError, match="exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"):
            await cluster.create("pods", {**first, "metadata": {"name": "c"}})


async def test_a_scope_may_be_a_priority_class():
    async with world(1) as cluster:
        await cluster.client.create("priorityclasses.scheduling.k8s.io", {"metadata": {"name": "high"}, "value": 10})
        term = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
        await quota(cluster, hard={"pods": "1"}, scopeSelector={"matchExpressions": [term]})
        await cluster.create("pods", pod("a", priorityClassName="high"))
        await cluster.create("pods", pod("b"))
        assert await used(cluster) == {"pods": "1"}


async def test_gpus_are_counted_by_their_requests_and_under_no_other_name():
    gpu = container("busybox:1.36", "sleep", "600", resources={"limits": {"nvidia.com/gpu": "1"}})
    async with world(1) as cluster:
        await quota(cluster, hard={"limits.nvidia.com/gpu": "1", "nvidia.com/gpu": "1"})
        for name in ("a", "b"):
            await cluster.create("pods", pod(name, gpu))
        assert "2" not in (await used(cluster)).values()
        await quota(cluster, "counting", hard={"requests.nvidia.com/gpu": "2"})
        assert await used(cluster, "counting") == {"requests.nvidia.com/gpu": "2"}
        with pytest.raises(ApiError, match="exceeded quota: counting, requested: requests.nvidia.com/gpu=1"):
            await cluster.create("pods", pod("c", gpu))


async def test_services_count_by_what_they_take_also_after_a_change():
    async with world(1) as cluster:
        await quota(cluster, hard={"services": "5", "services.nodeports": "1", "services.loadbalancers": "0"})
        for name in ("a", "b"):
            ports = [{"port": 80}]
            await cluster.create("services", {"metadata": {"name": name}, "spec": {"ports": ports}})
        await cluster.client.patch("services", "a", "default", {"spec": {"type": "NodePort"}})
        assert await used(cluster) == {"services": "2", "services.loadbalancers": "0", "services.nodeports": "1"}
        with pytest.raises(ApiError, match="requested: services.nodeports=1, used: services.nodeports=1"):
            await cluster.client.patch("services", "b", "default", {"spec": {"type": "NodePort"}})


async def test_claims_count_by_size_and_class():
    async with world(1) as cluster:
        key = "fast.storageclass.storage.k8s.io/requests.storage"
        await quota(cluster, hard={"requests.storage": "10Gi", key: "2Gi"})
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}
        claim = {"metadata": {"name": "a"}, "spec": {**spec, "storageClassName": "fast"}}
        await cluster.create("persistentvolumeclaims", claim)
        assert await used(cluster) == {key: "2Gi", "requests.storage": "2Gi"}
        with pytest.raises(ApiError, match="exceeded quota: q"):
            await cluster.create("persistentvolumeclaims", {**claim, "metadata": {"name": "b"}})
        await cluster.client.delete("persistentvolumeclaims", "a", "default")
        assert await used(cluster) == {key: "0", "requests.storage": "0"}


async def test_no_two_services_have_one_address_or_one_port_of_the_nodes():
    async with world(1) as cluster:
        first = {"type": "NodePort", "clusterIP": "10.96.7.7", "ports": [{"port": 80, "nodePort": 30123}]}
        await cluster.create("services", {"metadata": {"name": "a"}, "spec": first})
        with pytest.raises(ApiError) as caught:
            await cluster.create("services", {"metadata": {"name": "b"}, "spec": first})
        with pytest.raises(ApiError) as elsewhere:
            await cluster.create("services", {"metadata": {"name": "b"}, "spec": {**first, "clusterIP": ""}})
    assert caught.value.message == (
        'Service "b" is invalid: spec.clusterIPs: Invalid value: ["10.96.7.7"]: failed to allocate IP 10.96.7.7: '
        "provided IP is already allocated"
    )
    assert elsewhere.value.message == (
        'Service "b" is invalid: spec.ports[0].nodePort: Invalid value: 30123: provided port is already allocated'
    )


async def test_a_runtime_class_adds_its_cost_and_its_place():
    async with world(1) as cluster:
        with pytest.raises(ApiError, match='pods "a" is forbidden: pod rejected: RuntimeClass "gvisor" not found'):
            await cluster.create("pods", pod("a", runtimeClassName="gvisor"))
        place = {"nodeSelector": {"runtime": "gvisor"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}]}
        overhead = {"podFixed": {"cpu": "250m"}}
        wanted = {"metadata": {"name": "gvisor"}, "handler": "runsc", "overhead": overhead, "scheduling": place}
        await cluster.client.create("runtimeclasses.node.k8s.io", wanted)
        spec = (await cluster.create("pods", pod("a", runtimeClassName="gvisor")))["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "250m"}, {"runtime": "gvisor"})
    assert spec["tolerations"][-1] == {"key": "sandbox", "operator": "Exists"}
