"""Simulated nodes that leave a cluster: without a trace, after a kill, taken over; and how long they can stay."""

import asyncio
from datetime import timedelta

import pytest

from kubesim.clock import ManualClock, RealClock
from kubesim.nodes.certificates import Renewal
from kubesim.nodes.joined import remove
from kubesim.nodes.registration import Taken
from kubesim.overhttp import Unreachable
from kubesim.tests.joining import GROUP, administrator, close, joined, made, pod, running, state_of
from kubesim.tests.live import serving


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("live"), nodes=0) as live:
        yield live


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
        async with asyncio.timeout(30):
            await first.lost.wait()
        await first.stop()
        close(first)
        async with administrator(live) as client:
            assert (await client.get("nodes", "test-0"))["metadata"]["name"] == "test-0"


async def test_a_node_that_somebody_deletes_ends_and_the_others_go_on(live):
    async with administrator(live) as client, joined(live, nodes=2) as nodes:
        await client.delete("nodes", "test-0")
        async with asyncio.timeout(30):
            while len(nodes.nodes) > 1:
                await asyncio.sleep(0)
        await client.create("pods", pod("stays", "sleep", "1000"))
        await running(client, "stays")
        assert (await client.get("pods", "stays", "default"))["spec"]["nodeName"] == "test-1"
        assert not nodes.lost.is_set()
    async with administrator(live) as client:
        assert not {"test-0", "test-1"} & {obj["metadata"]["name"] for obj in (await client.list("nodes")).items}


async def test_a_node_of_somebody_else_is_left_alone(live):
    async with administrator(live) as client:
        await client.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "test-0"}})
        nodes = await made(live)
        with pytest.raises(Taken, match="the cluster has a node test-0 that is not ours"):
            await nodes.start()
        await nodes.stop()
        close(nodes)
        assert (await client.list("certificatesigningrequests.certificates.k8s.io")).items == []
        await client.delete("nodes", "test-0")
