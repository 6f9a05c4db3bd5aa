"""Simulated nodes in trouble: an API server that goes, names that are taken, an end amid the beginning."""

import asyncio
import ssl
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from kubesim.auth.users import Attributes, service_account_user
from kubesim.clock import RealClock, settle
from kubesim.errors import ApiError
from kubesim.nodes import access
from kubesim.nodes.account import Group
from kubesim.nodes.joined import Joined
from kubesim.nodes.registration import Taken, Wanted
from kubesim.overhttp import Unreachable
from kubesim.pki import name_of
from kubesim.pools import Pool
from kubesim.tests.joining import (
    GROUP,
    administrator,
    close,
    joined,
    kubelet,
    made,
    place,
    pod,
    running,
    state_of,
    until,
)
from kubesim.tests.live import serving
from kubesim.tests.relay import Relay

FAST = 8.0
"""A heartbeat is every 1.25 s then, and a status that nobody has asked for comes after 37 s."""
LOST = {
    "type": "Ready",
    "status": "Unknown",
    "reason": "NodeStatusUnknown",
    "message": "Kubelet stopped posting node status.",
}


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("live"), nodes=0) as live:
        yield live


async def through(live, relay):
    """Return nodes that reach the API server over a relay, and whose time passes fast."""
    await relay.mend()
    clock = RealClock(FAST)
    way = replace(await access.load(live.kubeconfig, clock), server=f"https://127.0.0.1:{relay.port}")
    return Joined(way, Wanted(GROUP, (Pool(1, 8, name=GROUP.name),), "127.0.0.1"), place(1), clock)


def told(node):
    conditions = {found["type"]: found for found in node["status"]["conditions"]}
    return conditions["Ready"]["status"], conditions["Ready"]["reason"]


async def test_an_api_server_that_was_away_finds_the_same_nodes_and_pods_again(live):
    relay = Relay(live.port)
    nodes = await through(live, relay)
    async with administrator(live) as client:
        await nodes.start()
        await client.create("pods", pod("steady", "sleep", "100000"))
        before = await running(client, "steady")
        node = await client.get("nodes", "test-0")
        await relay.cut()
        status = {"status": {"conditions": [LOST]}}
        await client.patch("nodes", "test-0", "", status, patch_type="strategic", subresource="status")
        await relay.mend()

        async def back():
            found = await client.get("nodes", "test-0")
            return found if told(found) == ("True", "KubeletReady") else None

        found = await until(back, seconds=30)
        assert found["metadata"]["uid"] == node["metadata"]["uid"]
        assert [item["metadata"]["name"] for item in (await client.list("nodes")).items] == ["test-0"]
        after = await client.get("pods", "steady", "default")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
        await nodes.stop()
        close(nodes)
        await relay.cut()


async def shown(nodes):
    """Return the certificate that the first kubelet's port shows (DER)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", nodes.place.ports[0], ssl=context)
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    await settle(20)
    return found


async def test_certificates_are_changed_while_a_log_is_followed(live):
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(administrator(live))
        nodes = await stack.enter_async_context(joined(live))
        http = await stack.enter_async_context(kubelet(nodes, live.token))
        await client.create("pods", pod("chatty", "sh", "-c", "while true; do echo on; sleep 0.2; done"))
        await running(client, "chatty")
        path = "/containerLogs/default/chatty/main?follow=true"
        async with http.get(path) as answer:
            assert await answer.content.readexactly(3) == b"on\n"
            before = await shown(nodes)
            await nodes._renew(nodes.nodes[0])
            assert await shown(nodes) != before
            assert await answer.content.readexactly(6) == b"on\non\n"
            async with http.get(f"{path}&limitBytes=3") as later:
                assert await later.read() == b"on\n"


async def test_a_node_whose_certificate_has_expired_goes_on_with_another(live):
    """As where the API server was away until it was too late to ask in time."""
    async with administrator(live) as client, joined(live) as nodes:
        node = nodes.nodes[0]
        subject = name_of(f"system:node:{node.name}", ["system:nodes"])
        long_ago = datetime.now(UTC) - timedelta(days=4000)
        expired = live.authority.issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH, [], long_ago)
        node.client.renew(nodes.access.as_holder(expired.certificate + expired.key).context())
        with pytest.raises((Unreachable, ApiError)):
            await node.client.get("nodes", node.name)
        await nodes._renew(node)
        await client.create("pods", pod("afterwards", "sleep", "1000"))
        assert (await running(client, "afterwards"))["spec"]["nodeName"] == node.name


async def test_leaving_ends_also_where_the_api_server_is_away_and_says_what_to_do(live, caplog):
    relay = Relay(live.port)
    nodes = await through(live, relay)
    await nodes.start()
    await relay.cut()
    async with asyncio.timeout(60):
        await nodes.stop()
    close(nodes)
    assert "run kubesim nodes --remove" in caplog.text
    async with administrator(live) as client, joined(live):
        assert len((await client.list("nodes")).items) == 1


async def test_a_name_that_another_node_has_is_refused_before_anything_is_done_in_it(live):
    """Neither its pods end, nor is a certificate asked for that would let us be that node."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(administrator(live))
        await stack.enter_async_context(joined(live))
        await client.create("pods", pod("theirs", "sleep", "1000"))
        before = await running(client, "theirs")
        state = await state_of(client)
        clock = RealClock()
        pool = Pool(1, 8, name=GROUP.name)
        other = Joined(
            await access.load(live.kubeconfig, clock), Wanted(Group("other"), (pool,), "127.0.0.1"), place(1), clock
        )
        with pytest.raises(
            Taken, match="the cluster has a node test-0 that is not ours; choose other names with --name"
        ):
            await other.start()
        assert await state_of(client) == state
        await other.stop()
        close(other)
        assert await state_of(client) == state
        after = await client.get("pods", "theirs", "default")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]


@pytest.mark.parametrize("turns", [1, 5, 20, 60, 150])
async def test_an_end_in_the_middle_of_the_beginning_leaves_no_trace(live, turns):
    async with administrator(live) as client:
        before = await state_of(client)
        nodes = await made(live, nodes=2)
        starting = asyncio.ensure_future(nodes.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        await nodes.stop()
        close(nodes)
        assert await state_of(client) == before


async def test_the_account_may_read_where_packets_go_and_nothing_else(live):
    """Compared for every resource and verb that there is."""
    async with joined(live):
        allowed = await asyncio.to_thread(live.ask, _rights)
    core = ("services", "endpoints", "pods", "nodes", "namespaces")
    rules = (f"{kind}.networking.k8s.io" for kind in ("networkpolicies", "ingresses", "ingressclasses"))
    assert allowed == dict.fromkeys((*core, "endpointslices.discovery.k8s.io", *rules), {"get", "list", "watch"})


VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
OWN = {"selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews"}
"""What everybody may ask about himself."""


def _rights(cluster):
    """Return the verbs that the group's account may use, by resource and part, where there are any."""
    user = service_account_user("kube-system", GROUP.account, "")
    found = {}
    for kind in cluster.operations.registry.all():
        for part in ("", *(each.name for each in kind.subresources)):
            asked = {verb: Attributes(verb, kind.group, kind.version, kind.plural, part) for verb in VERBS}
            verbs = {verb for verb in VERBS if cluster.operations.allows(user, asked[verb])}
            if verbs and kind.plural not in OWN:
                found["/".join(filter(None, (kind.resource, part)))] = verbs
    return found
