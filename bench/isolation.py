"""One cluster's answers while another on the same host is attacked: p99 at rest and during each attack."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import yaml
from aiohttp import ClientError, ClientSession

from bench.figures import Figure, report
from bench.programs import connect, create, descendants, hosting, private, seconds_of

REST_S, ATTACK_S, EVERY_S = 6.0, 6.0, 0.02
REST_EVERY_S = 1.0
MAX_RATIO, MAX_MORE_MS = 1.5, 20.0
"""The goal: one of the two."""
MADE = 5
HALF_OPEN = 1_500
BODY_MB, CONTAINERS, PATCHED, REPLICAS = 600, 900, 20_000, 5_000
PODS, DEPLOYMENTS = "/api/v1/namespaces/default/pods", "/apis/apps/v1/namespaces/default/deployments"
IMAGE = {"image": "busybox:1.36"}
FORK_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 60"


@dataclass(frozen=True)
class Target:
    """The cluster that is attacked: its administrator, its kubeconfig, the host's port, and its process."""

    admin: ClientSession
    kubeconfig: Path
    port: int
    pid: int


async def many_containers(target: Target) -> None:
    """Create a pod of 900 containers behind an init container."""
    containers = [{"name": f"c{number}", **IMAGE, "command": ["sleep", "60"]} for number in range(CONTAINERS)]
    first = {"name": "first", **IMAGE, "command": ["sleep", "1"]}
    spec = {"initContainers": [first], "containers": containers}
    await create(target.admin, PODS, {"metadata": {"name": "many"}, "spec": spec})


async def large_patch(target: Target) -> None:
    """Send strategic merge patches of 20,000 containers."""
    containers = [{"name": f"c{number}", **IMAGE} for number in range(PATCHED)]
    patch = orjson.dumps({"spec": {"template": {"spec": {"containers": containers}}}})
    await create(target.admin, DEPLOYMENTS, deployment("patched", 0))
    headers = {"Content-Type": "application/strategic-merge-patch+json"}
    while True:
        async with target.admin.patch(f"{DEPLOYMENTS}/patched", data=patch, headers=headers) as response:
            await response.read()


async def many_replicas(target: Target) -> None:
    """Create a Deployment of 5,000 replicas."""
    await create(target.admin, DEPLOYMENTS, deployment("large", REPLICAS))


async def fork_bomb(target: Target) -> None:
    """Let a shell in a container start itself twice, and each of the two again."""
    await create(
        target.admin, PODS, {"metadata": {"name": "shell"}, "spec": {"containers": [{"name": "a", **IMAGE}]}}
    )
    command = ("kubectl", "--kubeconfig", str(target.kubeconfig), "exec", "shell", "--", "sh", "-c", FORK_BOMB)
    while True:  # until the pod runs
        quiet = asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet)
        try:
            await process.wait()
        finally:
            with suppress(ProcessLookupError):
                process.kill()


SENDER = """
import socket, ssl, sys
port, token, megabytes = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
context = ssl._create_unverified_context()
head = f"POST /api/v1/namespaces/default/pods HTTP/1.1\\r\\nHost: a\\r\\nAuthorization: {token}\\r\\n"
head += f"Content-Type: application/json\\r\\nContent-Length: {megabytes << 20}\\r\\n\\r\\n"
while True:
    try:
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port))) as held:
            held.sendall(head.encode())
            for _ in range(megabytes):
                held.sendall(bytes(1 << 20))
    except OSError:
        pass
"""


async def large_body(target: Target) -> None:
    """Send a body of 600 MB, over and over, from a process of its own: what is measured is not our own work."""
    await _run(SENDER, target.port, target.admin.headers["Authorization"], BODY_MB)


SILENT = """
import select, socket, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
held = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
poll = select.poll()
for found in held:
    poll.register(found, select.POLLIN)
while True:
    poll.poll(1000)
"""


async def half_open(target: Target) -> None:
    """Keep 1,500 connections open that never say anything."""
    await _run(SILENT, target.port, HALF_OPEN)


async def _run(program: str, *arguments: object) -> None:
    """Run a program of ours until it ends or this is cancelled."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, *map(str, arguments))
    try:
        await process.wait()
    finally:
        with suppress(ProcessLookupError):
            process.kill()


async def stopped(target: Target) -> None:
    """Stop the cluster's process, which is then killed and started again."""
    os.kill(target.pid, signal.SIGSTOP)


async def killed(target: Target) -> None:
    """Kill the cluster's process."""
    os.kill(target.pid, signal.SIGKILL)


ATTACKS: dict[str, Callable[[Target], Awaitable[None]]] = {
    f"a pod of {CONTAINERS} containers": many_containers,
    f"patches of {PATCHED:,} containers": large_patch,
    f"{REPLICAS:,} replicas": many_replicas,
    "a fork bomb in the shell": fork_bomb,
    f"bodies of {BODY_MB} MB": large_body,
    f"{HALF_OPEN:,} half-open connections": half_open,
    "SIGSTOP of its process": stopped,
    "kill -9 of its process": killed,
}


def port_of(kubeconfig: Path) -> int:
    """Return the port of a kubeconfig's server."""
    found = yaml.safe_load(kubeconfig.read_bytes())["clusters"][0]["cluster"]["server"]
    return int(found.rpartition(":")[2])


def deployment(name: str, replicas: int) -> dict[str, Any]:
    """Return a Deployment."""
    labels = {"app": name}
    pod = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "a", **IMAGE, "command": ["sleep", "9"]}]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod}
    return {"metadata": {"name": name}, "spec": spec}


async def p99(client: ClientSession, seconds: float) -> float:
    """Return the milliseconds within which 99 of 100 requests are answered, asked one after the other."""
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        async with client.get(PODS) as response:
            response.raise_for_status()
            await response.read()
        times.append(time.perf_counter() - start)
        await asyncio.sleep(EVERY_S)
    return statistics.quantiles(times, n=100)[98] * 1000


@asynccontextmanager
async def cluster(control: ClientSession, name: str, folder: Path) -> AsyncIterator[tuple[ClientSession, Path]]:
    """Make a cluster, yield its administrator and kubeconfig, and drop it."""
    async with control.post("/control/clusters", json={"name": name}) as response:
        made = await response.json()
    kubeconfig = folder / f"{name}.kubeconfig"
    kubeconfig.write_text(made["kubeconfig"], encoding="utf-8")
    async with connect(kubeconfig) as admin:
        yield admin, kubeconfig
    async with control.delete(f"/control/clusters/{name}"):
        pass


async def attacked(
    control: ClientSession, parent: int, number: int, folder: Path, calm: ClientSession
) -> tuple[float, float]:
    """Return p99 of the calm cluster before and during an attack on another."""
    attack = [*ATTACKS.values()][number]
    before = descendants(parent)
    async with cluster(control, f"attacked-{number}", folder) as (admin, kubeconfig):
        pid = max(set(descendants(parent)) - set(before))
        await asyncio.sleep(2)
        at_rest = await p99(calm, REST_S / 2)
        attacking = asyncio.ensure_future(attack(Target(admin, kubeconfig, port_of(kubeconfig), pid)))
        try:
            return at_rest, await p99(calm, ATTACK_S)
        finally:
            attacking.cancel()
            with suppress(asyncio.CancelledError, ClientError, RuntimeError):
                await attacking


async def _come_to_rest(pid: int) -> None:
    """Wait until a process does nothing any more."""
    used = -1.0
    while used != (used := seconds_of(pid)):
        await asyncio.sleep(REST_EVERY_S)


async def starts(control: ClientSession, parent: int, folder: Path) -> tuple[float, float]:
    """Return the milliseconds until a cluster is made, and the MB that its process shares with no other."""
    times, memory = [], []
    for number in range(MADE):
        start, before = time.perf_counter(), descendants(parent)
        async with cluster(control, f"made-{number}", folder):
            times.append(time.perf_counter() - start)
            memory.append(private(max(set(descendants(parent)) - set(before))))
        await asyncio.sleep(1)
    return statistics.median(times) * 1000, statistics.median(memory)


async def measure(folder: Path) -> list[Figure]:
    """Run a host with a calm cluster, and attack others beside it."""
    figures = []
    async with AsyncExitStack() as stack:
        control, parent = await stack.enter_async_context(hosting(folder / "data"))
        await _come_to_rest(parent)  # it takes images, and reads modules that no cluster has needed yet
        made_ms, private_mb = await starts(control, parent, folder)
        figures += [
            Figure("a cluster is made", made_ms, "ms", 100),
            Figure("memory that it shares with no other", private_mb, "MB", 20),
        ]
        calm, _ = await stack.enter_async_context(cluster(control, "calm", folder))
        rest = await p99(calm, REST_S)
        for number, name in enumerate(ATTACKS):
            before, during = await attacked(control, parent, number, folder, calm)
            base = max(rest, before)
            figures.append(
                Figure(f"p99 during {name}", during, "ms", max(base * MAX_RATIO, base + MAX_MORE_MS), base)
            )
    return figures


def main() -> int:
    """Print and keep the figures."""
    with tempfile.TemporaryDirectory() as folder:
        return report("isolation", asyncio.run(measure(Path(folder))), "at rest")
