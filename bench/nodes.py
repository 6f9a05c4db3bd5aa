"""Pods, GPU queries, shells and cost of simulated nodes, beside kwok."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import orjson
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType

from bench import programs
from bench.figures import Figure, report
from bench.kubesim import idle_cost
from bench.programs import Server, create, create_all

NODES, PODS, AT_ONCE = 100, 1000, 16
MANY_NODES, SETTLE_S, BEATS_S = 1000, 20, 60  # nodes that only beat, seconds until they do, seconds of looking
GPU_NODES, GPUS = 125, 8
ROUNDS = 15
PATH = "/api/v1/namespaces/default/pods"
CONTAINER = {"name": "main", "image": "nginx:1.27"}
PROMETHEUS = "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy/api/v1/query"
QUERY = "avg by (Hostname) (DCGM_FI_DEV_GPU_UTIL)"
SHELL = "command=sh&stdin=true&stdout=true&tty=true"
STDIN, STDOUT = b"\x00", b"\x01"
Look = Callable[[ClientSession, str], Coroutine[Any, Any, None]]
Figures = dict[str, float]


async def lives(server: Server, look: Look) -> float:
    """Return pods a second from their creation, all at once, until every one runs and ``look`` has been at it."""
    start = time.perf_counter()
    async with asyncio.timeout(300):
        following = asyncio.create_task(_all_run(server.client, look))
        body = {"metadata": {"generateName": "bench-"}, "spec": {"containers": [CONTAINER]}}
        await create_all(server.client, PATH, (body for _ in range(PODS)), AT_ONCE)
        await following
    return PODS / (time.perf_counter() - start)


async def _all_run(client: ClientSession, look: Look) -> None:
    """Return once all pods run and have been looked at."""
    running: set[str] = set()
    async with asyncio.TaskGroup() as looks:
        while len(running) < PODS:  # a server may end the watch of somebody who is slow: it begins with all there is
            async with client.get(PATH, params={"watch": "true"}) as stream:
                while len(running) < PODS and (line := await stream.content.readline()):
                    pod = orjson.loads(line)["object"]
                    name = pod["metadata"]["name"]
                    if name not in running and pod.get("status", {}).get("phase") == "Running":
                        running.add(name)
                        looks.create_task(look(client, name))


async def read_log(client: ClientSession, name: str) -> None:
    """Read a pod's log."""
    async with client.get(f"{PATH}/{name}/log") as response:
        await response.read()
        response.raise_for_status()


async def no_look(client: ClientSession, name: str) -> None:
    """Ask nothing of a pod that has no log."""


async def beats(server: Server) -> float:
    """Return what a server uses whose nodes only beat, in percent of a core."""
    await asyncio.sleep(SETTLE_S)
    before, start = server.seconds(), time.perf_counter()
    await asyncio.sleep(BEATS_S)
    return (server.seconds() - before) / (time.perf_counter() - start) * 100


async def query(server: Server) -> float:
    """Return the milliseconds of an instant query over all GPUs, asked through the API server's proxy."""
    async with asyncio.timeout(120):
        while await _found(server.client) < GPU_NODES:
            await asyncio.sleep(1)
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        await _found(server.client)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


async def _found(client: ClientSession) -> int:
    """Return how many nodes the query finds now."""
    async with client.get(PROMETHEUS, params={"query": QUERY}) as response:
        body = await response.read()
        return len(orjson.loads(body)["data"]["result"]) if response.status == 200 else 0


async def shell(server: Server) -> Figures:
    """Return the milliseconds until a shell's prompt stands, and until what a command prints comes back."""
    container: dict[str, Any] = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "3600"]}
    pod = {"metadata": {"name": "shell"}, "spec": {"containers": [container]}}
    await create(server.client, PATH, pod)
    async with asyncio.timeout(60):
        while not await _runs(server.client, "shell"):
            await asyncio.sleep(0.1)
    prompts, echoes = [], []
    for number in range(ROUNDS):
        start = time.perf_counter()
        async with server.client.ws_connect(f"{PATH}/shell/exec?{SHELL}", protocols=("v4.channel.k8s.io",)) as ws:
            await _until(ws, b"# ")
            prompts.append(time.perf_counter() - start)
            start = time.perf_counter()
            await ws.send_bytes(STDIN + b"echo $((%d+1000))\r" % number)
            await _until(ws, b"%d\r\n" % (number + 1000))
            echoes.append(time.perf_counter() - start)
    return {"prompt": statistics.median(prompts) * 1000, "echo": statistics.median(echoes) * 1000}


async def _runs(client: ClientSession, name: str) -> bool:
    async with client.get(f"{PATH}/{name}") as response:
        return bool(orjson.loads(await response.read()).get("status", {}).get("phase") == "Running")


async def _until(ws: ClientWebSocketResponse, end: bytes) -> None:
    """Read standard output until it holds ``end``."""
    seen = b""
    async with asyncio.timeout(10):
        while end not in seen:
            message = await ws.receive()
            if message.type is not WSMsgType.BINARY:
                raise RuntimeError(f"the shell has ended: {message}")
            seen += message.data[1:] if message.data[:1] == STDOUT else b""


async def measure() -> list[Figure]:
    """Measure everything."""
    with tempfile.TemporaryDirectory(prefix="nodes-bench-") as name:
        folder = Path(name)
        ours = await _ours(folder)
        peer = await _kwok(folder)
    return _figures(ours, peer)


async def _ours(folder: Path) -> Figures:
    """Measure kubesim's nodes."""
    async with programs.kubesim(folder, "--nodes", str(NODES)) as server:
        found = {"lives": await lives(server, read_log)}
    async with programs.kubesim(folder, "--nodes", str(MANY_NODES)) as server:
        found["beats"] = await beats(server)
    asked = ("--nodes", str(GPU_NODES), "--gpus", str(GPUS), "--addon", "gpu-operator", "--addon", "monitoring")
    async with programs.kubesim(folder, *asked) as server:
        found["query"] = await query(server)
    async with programs.kubesim(folder) as server:
        found |= await shell(server)
    found["idle"] = await idle_cost(folder / "idle")
    return found


async def _kwok(folder: Path) -> Figures:
    """Measure kwok's nodes on a real control plane, where there is one."""
    if not programs.found():
        print("kwok not found: its figure is left out. Run: make testcluster   (or set TESTCLUSTER_BIN)")
        return {}
    async with programs.real(folder / "real") as server:
        for number in range(NODES):
            await create(server.client, "/api/v1/nodes", _paper(f"paper-{number}"))
        await programs.until_there(server.client, "/api/v1/namespaces/default/serviceaccounts/default")
        return {"lives": await lives(server, no_look)}


def _paper(name: str) -> dict[str, Any]:
    """Return a node that kwok keeps ready."""
    room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    meta = {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    return {"metadata": meta, "status": {"capacity": room, "allocatable": room}}


def _figures(ours: Figures, peer: Figures) -> list[Figure]:
    """Return each figure with its goal."""
    name = f"pods from creation to Running, logs read, on {NODES} nodes"
    return [
        Figure(name, ours["lives"], "/s", 300, peer.get("lives"), at_least=True),
        Figure(f"{MANY_NODES:,} nodes that beat, of a core", ours["beats"], "%", 5),
        Figure(f"query over {GPU_NODES * GPUS:,} GPUs", ours["query"], "ms", 20),
        Figure("prompt of a shell", ours["prompt"], "ms", 20),
        Figure("echo in it", ours["echo"], "ms", 5),
        Figure("an idle cluster of three nodes, of a core", ours["idle"], "%", 0.1),
    ]


def main() -> int:
    """Run the benchmark."""
    return report("nodes", asyncio.run(measure()), "kwok")
