"""Simulated nodes that join a kubesim without nodes of its own, for tests."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from aiohttp import ClientSession, TCPConnector

from kubesim.clock import RealClock
from kubesim.connections import Connections
from kubesim.nodes import access
from kubesim.nodes.account import TAINT, Group
from kubesim.nodes.joined import Joined, Place
from kubesim.nodes.registration import Wanted
from kubesim.pools import Pool
from kubesim.serve import Address, listen

GROUP = Group("test")
LISTED = (
    *("nodes", "pods", "leases.coordination.k8s.io", "serviceaccounts"),
    *("clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"),
    *("rolebindings.rbac.authorization.k8s.io", "certificatesigningrequests.certificates.k8s.io"),
)
TOLERATION = {"key": TAINT["key"], "operator": "Exists"}


def place(count):
    return Place([listen(Address()) for _ in range(count)])


@asynccontextmanager
async def administrator(live):
    clock = RealClock()
    client = (await access.load(live.kubeconfig, clock)).client(clock)
    try:
        yield client
    finally:
        await client.close()


async def made(live, nodes=1, group=GROUP, **more):
    clock = RealClock()
    wanted = Wanted(group, (Pool(nodes, 8, name=group.name),), "127.0.0.1", **more)
    return Joined(await access.load(live.kubeconfig, clock), wanted, place(nodes), clock)


@asynccontextmanager
async def joined(live, **more):
    nodes = await made(live, **more)
    try:
        await nodes.start()
        yield nodes
    finally:
        await nodes.stop()
        close(nodes)


def close(nodes):
    for found in nodes.place.sockets:
        found.close()


async def until(true, seconds=30):
    async with asyncio.timeout(seconds):
        while not (found := await true()):
            await asyncio.sleep(0.02)
        return found


def pod(name, *command, **spec):
    main = {"name": "main", "image": "busybox:1.36", "command": [*command]}
    spec = {"containers": [main], "tolerations": [TOLERATION], "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def running(client, name):
    async def phase():
        found = await client.get("pods", name, "default")
        return found if found.get("status", {}).get("phase") in ("Running", "Succeeded", "Failed") else None

    return await until(phase)


async def state_of(client):
    """Everything that joining could leave behind, by resource."""
    return {
        resource: {item["metadata"]["name"] for item in (await client.list(resource)).items} for resource in LISTED
    }


@asynccontextmanager
async def kubelet(nodes, token=""):
    """Requests to the port of the first node's kubelet."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"https://127.0.0.1:{nodes.place.ports[0]}"
    connections = Connections()
    connector = TCPConnector(ssl=False, socket_factory=connections.make)
    async with ClientSession(url, connector=connector, headers=headers) as session:
        yield session
    await connections.end()
