"""Ranges of service addresses: kept while somebody has an address of them."""

from __future__ import annotations

from kubesim.tests.world import world

RANGES, ADDRESSES = "servicecidrs.networking.k8s.io", "ipaddresses.networking.k8s.io"
FINALIZER = "networking.k8s.io/service-cidr-finalizer"
GIVEN = {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}
REFERENCE = {"resource": "services", "namespace": "default", "name": "web"}


async def test_a_range_is_ready_and_kept():
    async with world() as cluster:
        await cluster.create(RANGES, {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.200.0.0/24"]}})
        await cluster.tick(1)
        made = await cluster.client.get(RANGES, "more")
        assert made["metadata"]["finalizers"] == [FINALIZER]
        assert made["status"]["conditions"][0]["message"] == "Kubernetes Service CIDR is ready"


async def test_a_range_that_nobody_uses_goes_after_ten_seconds():
    async with world() as cluster:
        await cluster.create(RANGES, {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.200.0.0/24"]}})
        await cluster.tick(1)
        await cluster.client.delete(RANGES, "more")
        await cluster.tick(8)
        assert (await cluster.client.get(RANGES, "more"))["metadata"]["deletionTimestamp"]
        await cluster.tick(4)
        assert "more" not in [span["metadata"]["name"] for span in await cluster.items(RANGES)]


async def test_a_range_goes_no_sooner_than_the_last_address_of_it():
    async with world() as cluster:
        await cluster.create(RANGES, {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.200.0.0/24"]}})
        address = {"metadata": {"name": "10.200.0.7", "labels": GIVEN}, "spec": {"parentRef": REFERENCE}}
        await cluster.create(ADDRESSES, address)
        await cluster.tick(1)
        await cluster.client.delete(RANGES, "more")
        await cluster.tick(30)
        (condition,) = (await cluster.client.get(RANGES, "more"))["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("False", "Terminating")
        await cluster.client.delete(ADDRESSES, "10.200.0.7")
        await cluster.tick(12)
        assert "more" not in [span["metadata"]["name"] for span in await cluster.items(RANGES)]
