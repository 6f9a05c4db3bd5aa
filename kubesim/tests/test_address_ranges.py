"""Ranges of service addresses: ready from the beginning, and gone when they are deleted."""

from __future__ import annotations

from kubesim.tests.world import world

RANGES = "servicecidrs.networking.k8s.io"
FINALIZER = "networking.k8s.io/service-cidr-finalizer"


async def test_a_range_is_ready_and_kept():
    async with world() as cluster:
        await cluster.create(RANGES, {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.200.0.0/24"]}})
        await cluster.tick(1)
        made = await cluster.client.get(RANGES, "more")
        assert made["metadata"]["finalizers"] == [FINALIZER]
        assert made["status"]["conditions"][0]["message"] == "Kubernetes Service CIDR is ready"


async def test_a_range_goes_when_it_is_deleted():
    async with world() as cluster:
        await cluster.create(RANGES, {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.200.0.0/24"]}})
        await cluster.tick(1)
        await cluster.client.delete(RANGES, "more")
        await cluster.tick(1)
        assert "more" not in [span["metadata"]["name"] for span in await cluster.items(RANGES)]
