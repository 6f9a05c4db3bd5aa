"""What the API server keeps there itself: the way to it, and the namespaces of the system, whoever deletes them."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from kubesim.errors import ApiError
from kubesim.standing import Standing
from kubesim.tests.world import world

SLICES = "endpointslices.discovery.k8s.io"


@asynccontextmanager
async def standing():
    async with world() as w:
        found = Standing(w.client.operations)
        found.follow()
        found.plant()
        await w.tick(0)
        yield w
        found.stop()


async def leads(w):
    """Return where the endpoints and the slice of the API's service lead."""
    endpoints = await w.client.get("endpoints", "kubernetes", "default")
    kept = await w.client.get(SLICES, "kubernetes", "default")
    (subset,) = endpoints["subsets"]
    return [
        [f"{address['ip']}:{port['port']}" for address in subset["addresses"] for port in subset["ports"]],
        [f"{place}:{kept['ports'][0]['port']}" for entry in kept["endpoints"] for place in entry["addresses"]],
    ]


async def test_the_service_of_the_api_leads_to_the_api_server():
    async with standing() as w:
        assert (await w.client.get("services", "kubernetes", "default"))["spec"]["clusterIP"] == "10.96.0.1"
        assert await leads(w) == [["172.16.0.2:443"]] * 2


@pytest.mark.parametrize("resource", ["services", "endpoints", SLICES])
async def test_what_is_deleted_of_it_comes_back_within_ten_seconds(resource):
    async with standing() as w:
        await w.client.delete(resource, "kubernetes", "default")
        await w.tick(9.9)
        with pytest.raises(ApiError, match="not found"):
            await w.client.get(resource, "kubernetes", "default")
        await w.tick(0.2)
        assert await w.client.get(resource, "kubernetes", "default")
        await w.tick(10)
        assert await leads(w) == [["172.16.0.2:443"]] * 2


async def test_whoever_leads_it_elsewhere_is_put_right():
    async with standing() as w:
        wrong = [{"addresses": [{"ip": "10.9.9.9"}], "ports": [{"name": "https", "port": 443}]}]
        await w.client.patch("endpoints", "kubernetes", "default", {"subsets": wrong})
        await w.client.patch(SLICES, "kubernetes", "default", {"ports": [{"name": "https", "port": 1}]})
        assert await leads(w) == [["10.9.9.9:443"], ["172.16.0.2:1"]]
        await w.tick(10.1)
        assert await leads(w) == [["172.16.0.2:443"]] * 2


async def test_notes_that_somebody_adds_stay():
    async with standing() as w:
        await w.client.patch("endpoints", "kubernetes", "default", {"metadata": {"annotations": {"a": "b"}}})
        before = (await w.client.get("endpoints", "kubernetes", "default"))["metadata"]["resourceVersion"]
        await w.tick(30)
        assert (await w.client.get("endpoints", "kubernetes", "default"))["metadata"]["resourceVersion"] == before


async def test_a_namespace_of_the_system_comes_back_within_a_minute():
    async with standing() as w:
        await w.client.delete("namespaces", "kube-node-lease")
        await w.tick(55)
        names = {item["metadata"]["name"] for item in (await w.client.list("namespaces")).items}
        assert names == {"default", "kube-public", "kube-system"}
        await w.tick(10)
        assert (await w.client.get("namespaces", "kube-node-lease"))["status"]["phase"] == "Active"
