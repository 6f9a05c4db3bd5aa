"""Start, latency and cost of a practice cluster, beside a real control plane."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import orjson
from aiohttp import ClientSession

from bench import programs
from bench.figures import Figure, report
from bench.programs import Server, create, create_all, descendants, hosting, proportional, until_there

ROUNDS = 5
CLUSTERS, IDLE, IDLE_S = 20, 20, 40
PODS = 1000
WRITERS = 16
WATCHERS, STALLED, EVENTS, EVERY = 50, 5, 300, 0.01  # watchers, changes, seconds between two changes
UNRELATED = 20_000
CHANGES = 400
KEPT = 10_000
LARGE_NODES, LARGE_PODS = 1000, 10_000
RUNNING, RUNNING_NODES = 800, 20
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
RBAC = "rbac.authorization.k8s.io"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CONTAINER = {"name": "main", "image": "nginx:1.27"}
POD = {
    "metadata": {"generateName": "bench-"},
    # no scheduler of this name runs: the figure is the API's alone
    "spec": {"schedulerName": "none", "containers": [CONTAINER]},
}
Figures = dict[str, float]


async def answers(server: Server) -> Figures:
    """Return pods created in a second, and the milliseconds of a list of 1,000 of them as JSON and as a Table."""
    client, path = server.client, "/api/v1/namespaces/bench/pods"
    user = await _account(client)
    start = time.perf_counter()
    await asyncio.gather(*(_post(client, path, PODS // WRITERS, user) for _ in range(WRITERS)))
    rate = PODS // WRITERS * WRITERS / (time.perf_counter() - start)
    plain = await _median(client, path, "application/json")
    return {"rate": rate, "plain": plain * 1000, "table": await _median(client, path, TABLE) * 1000}


async def _account(client: ClientSession) -> str:
    """Return a user that RBAC, and nothing else, lets create pods in a namespace with a quota and defaults.

    The administrator acts as that user: who is no administrator gets his share of the API only, which is no figure.
    """
    user, space = "bench", "/api/v1/namespaces/bench"
    await create(client, "/api/v1/namespaces", {"metadata": {"name": "bench"}})
    hard = {"pods": "100000", "requests.cpu": "10000", "requests.memory": "10000Gi"}
    await create(client, f"{space}/resourcequotas", {"metadata": {"name": "all"}, "spec": {"hard": hard}})
    limits = {"type": "Container", "defaultRequest": {"cpu": "10m", "memory": "16Mi"}}
    await create(client, f"{space}/limitranges", {"metadata": {"name": "all"}, "spec": {"limits": [limits]}})
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"}
    binding = {
        "metadata": {"name": user},
        "roleRef": role,
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
    await create(client, f"/apis/{RBAC}/v1/namespaces/bench/rolebindings", binding)
    await until_there(client, f"{space}/serviceaccounts/default")
    return user


async def _post(client: ClientSession, path: str, count: int, user: str) -> None:
    """Create some pods, one after the other."""
    for _ in range(count):
        await create(client, path, POD, **{"Impersonate-User": user})


async def _median(client: ClientSession, path: str, accept: str) -> float:
    """Return the median seconds of a request."""
    return statistics.median([await _timed(client, path, accept) for _ in range(ROUNDS * 2)])


async def _timed(client: ClientSession, path: str, accept: str = "application/json") -> float:
    """Return the seconds of a request."""
    start = time.perf_counter()
    async with client.get(path, headers={"Accept": accept}) as response:
        await response.read()
    return time.perf_counter() - start


async def fan_out(server: Server, stalled: int = 0) -> float:
    """Return the 99th percentile of the milliseconds from sending a change to its arrival at each of the watchers.

    ``stalled`` more watchers read nothing of what they are sent.
    """
    client = server.client
    sent: dict[str, float] = {}
    delays: list[float] = []
    opened = asyncio.Barrier(WATCHERS + 1)
    query = {"watch": "true", "fieldSelector": "metadata.name!=kube-root-ca.crt", "labelSelector": f"run=r{stalled}"}

    async def watch() -> None:
        async with client.get(CONFIG_MAPS, params=query) as stream:
            await opened.wait()
            for _ in range(EVENTS):
                event = orjson.loads(await stream.content.readline())
                delays.append(time.perf_counter() - sent[event["object"]["metadata"]["name"]])

    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        for _ in range(stalled):
            await stack.enter_async_context(client.get(CONFIG_MAPS, params=query))
        for _ in range(WATCHERS):
            tasks.create_task(watch())
        await opened.wait()
        start = time.perf_counter()
        for number in range(EVENTS):
            await asyncio.sleep(max(0.0, start + number * EVERY - time.perf_counter()))
            name = f"r{stalled}-{number}"
            sent[name] = time.perf_counter()
            meta = {"name": name, "labels": {"run": f"r{stalled}"}}
            tasks.create_task(create(client, CONFIG_MAPS, {"metadata": meta, "data": {"a": "x" * 900}}))
    return statistics.quantiles(delays, n=100)[98] * 1000


async def born(folder: Path) -> Figures:
    """Return the milliseconds and MB of one more cluster of three nodes among 200, and what idle ones cost.

    The first cluster also brings what all share, so memory is taken from the second on.
    """
    async with hosting(folder) as (client, pid):
        times: list[float] = []
        await _born(client, times, 0)
        before = proportional(pid)
        for number in range(1, CLUSTERS):
            await _born(client, times, number)
        all_of_them = proportional(pid)
    return {
        "fresh": statistics.median(times) * 1000,
        "all": all_of_them,
        "each": (all_of_them - before) / (CLUSTERS - 1),
        "idle": await idle_cost(folder / "idle"),
    }


async def _born(client: ClientSession, times: list[float], number: int) -> None:
    """Make a cluster and note the seconds."""
    start = time.perf_counter()
    async with client.post("/control/clusters", json={"name": f"c{number}"}) as response:
        response.raise_for_status()
    times.append(time.perf_counter() - start)


async def idle_cost(folder: Path) -> float:
    """Return what one idle cluster of three nodes uses, in percent of a core."""
    async with hosting(folder) as (client, pid):
        for number in range(IDLE):
            await _born(client, [], number)
        await asyncio.sleep(2)
        server = Server(client, (pid, *descendants(pid)), 0)
        before, start = server.seconds(), time.perf_counter()
        await asyncio.sleep(IDLE_S)
        return (server.seconds() - before) / (time.perf_counter() - start) / IDLE * 100


async def independence(server: Server) -> float:
    """Return how many times the processor time of a change there is among many unrelated objects."""
    alone = await _cost(server, "alone")
    await create(server.client, "/api/v1/namespaces", {"metadata": {"name": "other"}})
    await create_all(server.client, "/api/v1/namespaces/other/pods", _repeated(POD, UNRELATED // 2))
    maps = {"metadata": {"generateName": "m-"}, "data": {"a": "b"}}
    await create_all(server.client, "/api/v1/namespaces/other/configmaps", _repeated(maps, UNRELATED // 2))
    return await _cost(server, "among-many") / alone


def _repeated(body: dict[str, Any], count: int) -> Iterator[dict[str, Any]]:
    return (body for _ in range(count))


async def _cost(server: Server, name: str) -> float:
    """Return the processor time of a change to a config map and of a job that runs, both many times."""
    await create(server.client, CONFIG_MAPS, {"metadata": {"name": name}})
    before = server.seconds()
    for number in range(CHANGES):
        await _patch(server.client, f"{CONFIG_MAPS}/{name}", {"data": {"a": str(number)}})
    path = "/apis/batch/v1/namespaces/default/jobs"
    container = {"name": "main", "image": "busybox:1.36", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    body = {"metadata": {"name": name}, "spec": {"template": template, "completions": 40, "parallelism": 10}}
    await create(server.client, path, body)
    await _until_complete(server.client, f"{path}/{name}")
    return server.seconds() - before


async def _patch(client: ClientSession, path: str, change: dict[str, Any]) -> None:
    headers = {"Content-Type": "application/merge-patch+json"}
    async with client.patch(path, data=orjson.dumps(change), headers=headers) as response:
        response.raise_for_status()
        await response.read()


async def _until_complete(client: ClientSession, path: str) -> None:
    async with asyncio.timeout(120):
        while True:
            async with client.get(path) as response:
                if orjson.loads(await response.read())["status"].get("completionTime"):
                    return
            await asyncio.sleep(0.2)


async def longest_pause(server: Server) -> float:
    """Return the longest milliseconds of a small request while a large cluster that is kept changes all the time."""
    maps = {"metadata": {"generateName": "m-"}, "data": {"a": "x" * 1000}}
    await create_all(server.client, CONFIG_MAPS, _repeated(maps, KEPT))
    await create(server.client, CONFIG_MAPS, {"metadata": {"name": "changing"}})
    done = asyncio.Event()

    async def change() -> None:
        for number in range(CHANGES * 10):
            await _patch(server.client, f"{CONFIG_MAPS}/changing", {"data": {"a": str(number) + "x" * 8000}})
        done.set()

    writing = asyncio.create_task(change())
    times = [await _timed(server.client, "/version")]
    while not done.is_set():
        times.append(await _timed(server.client, "/version"))
        await asyncio.sleep(0.002)
    await writing
    return max(times) * 1000


async def large(server: Server) -> float:
    """Return the MB of a cluster of many nodes and many pods that no scheduler takes."""
    await create_all(server.client, "/api/v1/namespaces/default/pods", _repeated(POD, LARGE_PODS))
    return server.memory()


async def running(server: Server) -> float:
    """Return the kB that one more pod takes that runs, with its events and all that is known of it."""
    name, labels = "many", {"app": "many"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    path = "/apis/apps/v1/namespaces/default/deployments"
    await create(server.client, path, {"metadata": {"name": name}, "spec": spec})
    sizes = []
    for replicas in (RUNNING // 2, RUNNING):
        await _patch(server.client, f"{path}/{name}", {"spec": {"replicas": replicas}})
        async with asyncio.timeout(300):
            while await _ready_replicas(server.client, f"{path}/{name}") < replicas:
                await asyncio.sleep(0.5)
        sizes.append(server.memory())
    return (sizes[1] - sizes[0]) / (RUNNING - RUNNING // 2) * 1024


async def _ready_replicas(client: ClientSession, path: str) -> int:
    async with client.get(path) as response:
        return int(orjson.loads(await response.read()).get("status", {}).get("readyReplicas", 0))


async def both(server: Server) -> Figures:
    """Measure what is measured of kubesim and of a real control plane alike."""
    memory = server.memory()
    watched = await fan_out(server)
    stalled = await fan_out(server, STALLED)
    return {"ready": server.ready, "memory": memory, "watch": watched, "stalled": stalled} | await answers(server)


async def measure() -> list[Figure]:
    """Measure everything."""
    with tempfile.TemporaryDirectory(prefix="kubesim-bench-") as name:
        folder = Path(name)
        ours = await _ours(folder)
        peer = await _peer(folder)
    return _figures(ours, peer)


async def _ours(folder: Path) -> Figures:
    """Measure kubesim."""
    starts = []
    for _ in range(ROUNDS):
        async with programs.kubesim(folder) as server:
            starts.append(server.ready)
    async with programs.kubesim(folder) as server:
        found = await both(server) | {"ready": statistics.median(starts)}
    found |= await born(folder / "host")
    async with programs.kubesim(folder) as server:
        found["independence"] = await independence(server)
    async with programs.kubesim(folder, "--data", str(folder / "kept")) as server:
        found["pause"] = await longest_pause(server)
    async with programs.kubesim(folder, "--nodes", str(LARGE_NODES)) as server:
        found["large"] = await large(server)
    async with programs.kubesim(folder, "--nodes", str(RUNNING_NODES)) as server:
        found["running"] = await running(server)
    return found


async def _peer(folder: Path) -> Figures:
    """Measure a real control plane, where there is one."""
    if not programs.found():
        print(
            "real control plane not found: its figures are left out. Run: make testcluster   (or set TESTCLUSTER_BIN)"
        )
        return {}
    async with programs.real(folder / "real") as server:
        return await both(server)


def _figures(ours: Figures, peer: Figures) -> list[Figure]:
    """Return each figure with its goal."""
    return [
        Figure("ready", ours["ready"], "s", 0.5, peer.get("ready")),
        Figure("fresh cluster in a host", ours["fresh"], "ms", 100),
        Figure("memory of it", ours["each"], "MB", 35, peer.get("memory")),
        Figure(f"memory of {CLUSTERS} idle clusters", ours["all"], "MB", 1000),
        Figure("an idle cluster, of a core", ours["idle"], "%", 0.1),
        Figure("pods created: TLS, RBAC, quota, defaults", ours["rate"], "/s", 1500, peer.get("rate"), at_least=True),
        Figure("list 1,000 pods as JSON", ours["plain"], "ms", 10, peer.get("plain")),
        Figure("list 1,000 pods as Table", ours["table"], "ms", 15, peer.get("table")),
        Figure(f"{WATCHERS} watchers, {1 / EVERY:.0f} events/s, p99", ours["watch"], "ms", 50, peer.get("watch")),
        Figure(f"the same beside {STALLED} that do not read", ours["stalled"], "ms", 50, peer.get("stalled")),
        Figure(f"cost of a change among {UNRELATED:,} others / alone", ours["independence"], "x", 1.3),
        Figure(f"longest pause while {KEPT:,} objects are kept", ours["pause"], "ms", 50),
        Figure(f"memory of {LARGE_NODES:,} nodes and {LARGE_PODS:,} pods", ours["large"], "MB", 400),
        Figure("memory of one more pod that runs", ours["running"], "kB", 40),
    ]


def main() -> int:
    """Run the benchmark."""
    return report("kubesim", asyncio.run(measure()), "real control plane")
