"""How fast a practice cluster is there, and how fast it answers."""

from __future__ import annotations

import asyncio
import base64
import signal
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import yaml
from aiohttp import ClientSession, TCPConnector

from bench.figures import Figure, report

ROUNDS = 5
CLUSTERS = 200
PODS = 1000
WRITERS = 16
WATCHERS, EVENTS, EVERY = 50, 300, 0.01  # watchers, changes, seconds between two changes
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
POD = {
    "metadata": {"generateName": "bench-"},
    # no scheduler of this name runs: the figure is the API's alone
    "spec": {"schedulerName": "none", "containers": [{"name": "main", "image": "nginx:1.27"}]},
}


@asynccontextmanager
async def program(*arguments: str) -> AsyncIterator[tuple[str, int]]:
    """Run kubesim until the block ends; yields the line in which it says that it is ready, and its process id."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubesim", *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode(), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


def connect(kubeconfig: Path) -> ClientSession:
    """Return a session with a kubeconfig's server, CA and token."""
    config: dict[str, Any] = yaml.safe_load(kubeconfig.read_bytes())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    headers = {"Authorization": f"Bearer {user['token']}"}
    return ClientSession(cluster["server"], connector=TCPConnector(ssl=trust, limit=0), headers=headers)


async def ready(folder: Path) -> float:
    """Return the seconds from starting the program to its first answer."""
    start = time.perf_counter()
    file = folder / "kubeconfig"
    async with program("serve", "--kubeconfig", str(file)), connect(file) as client:
        async with client.get("/api/v1/nodes") as response:
            response.raise_for_status()
        return time.perf_counter() - start


@asynccontextmanager
async def hosting(folder: Path) -> AsyncIterator[tuple[ClientSession, int]]:
    """Run a host of clusters; yields a session with its control API, and its process id."""
    async with program("host", "--data", str(folder)) as (line, pid):
        url = next(word for word in line.split() if word.startswith("https://"))
        trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        token = (folder / "control-token").read_text(encoding="ascii").strip()
        headers = {"Authorization": f"Bearer {token}"}
        async with ClientSession(url, connector=TCPConnector(ssl=trust), headers=headers) as client:
            yield client, pid


async def fresh(folder: Path) -> tuple[float, float]:
    """Return the median seconds for one more cluster of three nodes, and the MB of 200 of them."""
    async with hosting(folder) as (client, pid):
        times = []
        for number in range(CLUSTERS):
            start = time.perf_counter()
            async with client.post("/control/clusters", json={"name": f"c{number}"}) as response:
                response.raise_for_status()
            times.append(time.perf_counter() - start)
        return statistics.median(times), resident(pid)


def resident(pid: int) -> float:
    """Return the MB of memory that a process has in use."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


async def answers(folder: Path) -> list[float]:
    """Return milliseconds per POST of a pod, per list of 1,000 pods as JSON, and as a Table."""
    file = folder / "answers"
    async with program("serve", "--kubeconfig", str(file)), connect(file) as client:
        path = "/api/v1/namespaces/default/pods"
        headers = {"Impersonate-User": await _account(client)}
        start = time.perf_counter()
        await asyncio.gather(*(_post(client, path, PODS // WRITERS, headers) for _ in range(WRITERS)))
        per_post = (time.perf_counter() - start) / (PODS // WRITERS * WRITERS)
        plain = await _fastest(client, path, "application/json")
        table = await _fastest(client, path, TABLE)
    return [seconds * 1000 for seconds in (per_post, plain, table)]


async def _account(client: ClientSession) -> str:
    """Return a user that RBAC, and nothing else, lets create pods.

    The administrator acts as that user: who is no administrator gets his share of the API only, which is no figure.
    """
    user, group = "bench", "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "edit"}
    subject = {"apiGroup": group, "kind": "User", "name": user}
    binding = {"metadata": {"name": user}, "roleRef": role, "subjects": [subject]}
    await _create(client, f"/apis/{group}/v1/namespaces/default/rolebindings", binding)
    return user


async def _create(client: ClientSession, path: str, body: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Post one object and return the answer."""
    async with client.post(path, json=body, **more) as response:
        response.raise_for_status()
        found: dict[str, Any] = orjson.loads(await response.read())
        return found


async def _post(client: ClientSession, path: str, count: int, headers: dict[str, str]) -> None:
    """Create some pods, one after the other."""
    for _ in range(count):
        await _create(client, path, POD, headers=headers)


async def _fastest(client: ClientSession, path: str, accept: str) -> float:
    """Return the median seconds of a list."""
    times = []
    for _ in range(ROUNDS * 2):
        start = time.perf_counter()
        async with client.get(path, headers={"Accept": accept}) as response:
            await response.read()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


async def fan_out(folder: Path) -> float:
    """Return the 99th percentile of the seconds from sending a change to its arrival at each of the watchers."""
    file = folder / "fan-out"
    async with program("serve", "--kubeconfig", str(file)), connect(file) as client:
        path = "/api/v1/namespaces/default/configmaps"
        sent: dict[str, float] = {}
        delays: list[float] = []
        opened = asyncio.Barrier(WATCHERS + 1)

        async def watch() -> None:
            query = {"watch": "true", "fieldSelector": "metadata.name!=kube-root-ca.crt"}
            async with client.get(path, params=query) as stream:
                await opened.wait()
                for _ in range(EVENTS):
                    event = orjson.loads(await stream.content.readline())
                    delays.append(time.perf_counter() - sent[event["object"]["metadata"]["name"]])

        async with asyncio.TaskGroup() as tasks:
            for _ in range(WATCHERS):
                tasks.create_task(watch())
            await opened.wait()
            start = time.perf_counter()
            for number in range(EVENTS):
                await asyncio.sleep(max(0.0, start + number * EVERY - time.perf_counter()))
                sent[f"c{number}"] = time.perf_counter()
                body = {"metadata": {"name": f"c{number}"}, "data": {"a": "x" * 900}}
                tasks.create_task(_create(client, path, body))
    return statistics.quantiles(delays, n=100)[98]


async def measure() -> list[Figure]:
    """Measure everything."""
    with tempfile.TemporaryDirectory(prefix="kubesim-bench-") as name:
        folder = Path(name)
        started = [await ready(folder) for _ in range(ROUNDS)]
        born, memory = await fresh(folder / "host")
        post, plain, table = await answers(folder)
        delay = await fan_out(folder)
    return [
        Figure("ready", statistics.median(started), "s", 0.5),
        Figure("fresh cluster", born * 1000, "ms", 50),
        Figure(f"memory of {CLUSTERS} idle clusters", memory, "MB", 1000),
        Figure("memory of one of them", memory / CLUSTERS, "MB", 3),
        Figure("POST a pod, TLS and RBAC", post, "ms", 2 / 3),
        Figure("list 1,000 pods as JSON", plain, "ms", 10),
        Figure("list 1,000 pods as Table", table, "ms", 15),
        Figure(f"{WATCHERS} watchers, {1 / EVERY:.0f} events/s, p99", delay * 1000, "ms", 50),
    ]


def main() -> int:
    """Run the benchmark."""
    return report("kubesim", asyncio.run(measure()))
