"""Attacks on one cluster: the processor time that they cost the front and another cluster."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass

import orjson
import pytest
from aiohttp import ClientSession, WSMsgType

from kubesim.tests import hosts
from kubesim.tests.hosts import RunningHost, cluster, gone, until
from kubesim.watchdog import usage_of

QUICK = """
from kubesim import watchdog
watchdog.TICK_S, watchdog.MIN_CPU_S = 0.6, 5.0  # sooner for who is stopped, later for who computes
"""
PODS, DEPLOYMENTS = "/api/v1/namespaces/default/pods", "/apis/apps/v1/namespaces/default/deployments"
IMAGE = {"image": "busybox:1.36"}
QUESTIONS = 20
BODY, REFUSED_AFTER = 3 << 30, 4 << 20  # bytes
MAX_NEIGHBOUR_S, MAX_FRONT_S = 0.3, 1.0
"""Of processor time: the neighbour answers QUESTIONS twice (0.02 s), the front carries all connections (0.2 s)."""
FORK_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 60"


@dataclass
class Attacked:
    """The cluster that is attacked."""

    host: RunningHost
    admin: ClientSession
    pid: int

    async def post(self, path, body):
        async with self.admin.post(path, json=body) as response:
            return response.status


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    with hosts.running(tmp_path_factory.mktemp("neighbours"), defect=hosts.NO_IMAGES + QUICK) as host:
        yield host


def deployment(name, replicas):
    labels = {"app": name}
    spec = {"containers": [{"name": "a", **IMAGE, "command": ["sleep", "9"]}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


async def many_containers(attacked):
    containers = [{"name": f"c{number}", **IMAGE, "command": ["sleep", "60"]} for number in range(900)]
    assert await attacked.post(PODS, {"metadata": {"name": "many"}, "spec": {"containers": containers}}) == 201


async def large_patch(attacked):
    assert await attacked.post(DEPLOYMENTS, deployment("patched", 0)) == 201
    containers = [{"name": f"c{number}", **IMAGE} for number in range(20_000)]
    patch = orjson.dumps({"spec": {"template": {"spec": {"containers": containers}}}})
    headers = {"Content-Type": "application/strategic-merge-patch+json"}
    async with attacked.admin.patch(f"{DEPLOYMENTS}/patched", data=patch, headers=headers) as response:
        assert response.status == 200


async def many_replicas(attacked):
    assert await attacked.post(DEPLOYMENTS, deployment("large", 5_000)) == 201


async def fork_bomb(attacked):
    """Start a shell twice, and each of the two again: more processes are refused, and then all of them killed."""
    container = {"name": "a", **IMAGE, "command": ["sleep", "8"]}  # its end kills the bomb
    pod = {"metadata": {"name": "bomb"}, "spec": {"containers": [container]}}
    assert await attacked.post(PODS, pod) == 201

    async def runs():
        async with attacked.admin.get(f"{PODS}/bomb") as response:
            return (await response.json())["status"]["phase"] == "Running"

    await until(runs)
    asked = [("command", word) for word in ("sh", "-c", FORK_BOMB)]
    query = [*asked, ("stdout", "true"), ("stderr", "true")]
    said = b""
    async with attacked.admin.ws_connect(f"{PODS}/bomb/exec", params=query, protocols=["v4.channel.k8s.io"]) as ws:
        async for message in ws:
            if message.type is WSMsgType.BINARY:
                said += message.data[1:]
    assert b"exit status 137" in said


async def large_body(attacked):
    """Send 3 GB, whatever is answered, which is a 413 after 3 MB: the connection is closed soon after it.

    How much goes through in that half second depends on the machine; all of it never does.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", attacked.host.port, ssl=attacked.host.trust)
    token = attacked.admin.headers["Authorization"]
    head = f"POST {PODS} HTTP/1.1\r\nHost: a\r\nAuthorization: {token}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {BODY}\r\n\r\n".encode())
    writer.write(bytes(REFUSED_AFTER))
    assert await reader.readexactly(12) == b"HTTP/1.1 413"
    sent = REFUSED_AFTER
    with suppress(ConnectionError):
        while sent < BODY and not writer.transport.is_closing():
            writer.write(bytes(1 << 20))
            sent += 1 << 20
            await writer.drain()
            await asyncio.sleep(0)  # drain alone does not notice that the connection is gone
    writer.transport.abort()
    assert sent < BODY // 2, "the refused body was read to its end"


async def half_open(attacked):
    """Open connections that never say anything; the oldest are closed for the newest."""
    held = [await asyncio.open_connection("127.0.0.1", attacked.host.port) for _ in range(600)]
    for _, writer in held:
        writer.close()


async def stopped(attacked):
    os.kill(attacked.pid, signal.SIGSTOP)
    await until(lambda: gone(attacked.pid))


async def killed(attacked):
    os.kill(attacked.pid, signal.SIGKILL)
    await until(lambda: gone(attacked.pid))


ATTACKS = (many_containers, large_patch, many_replicas, fork_bomb, large_body, half_open, stopped, killed)


async def seconds(*pids):
    """Return the processor time that processes have used."""
    return [usage.cpu_s for pid in pids if (usage := await usage_of(pid)) is not None]


async def newest(host, before):
    return await until(lambda: next(iter(set(host.children()) - set(before)), None))


async def answers(calm):
    for _ in range(QUESTIONS):
        async with calm.get(PODS) as response:
            assert response.status == 200
            await response.read()


async def test_no_attack_on_a_cluster_costs_the_front_or_a_neighbour_more_than_a_second(host):
    front, *before = host.children()
    async with cluster(host, "calm") as calm:
        neighbour = await newest(host, [front, *before])
        spent = {}
        for attack in ATTACKS:
            present = host.children()
            async with cluster(host, attack.__name__.replace("_", "-")) as admin:
                attacked = Attacked(host, admin, await newest(host, present))
                at_first = await seconds(front, neighbour)
                await asyncio.gather(attack(attacked), answers(calm))
                await answers(calm)  # while the attacked one is still at it
                now = await seconds(front, neighbour)
                spent[attack.__name__] = [round(b - a, 2) for a, b in zip(at_first, now, strict=True)]
    assert {name: used for name, used in spent.items() if used[0] > MAX_FRONT_S or used[1] > MAX_NEIGHBOUR_S} == {}
