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

import yaml
from aiohttp import ClientSession, TCPConnector

from bench.figures import Figure, report

ROUNDS = 5
CLUSTERS = 10
PODS = 1000
WRITERS = 16
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
POD = {
    "metadata": {"generateName": "bench-"},
    # no scheduler of this name runs: the figure is the API's alone
    "spec": {"schedulerName": "none", "containers": [{"name": "main", "image": "nginx:1.27"}]},
}


@asynccontextmanager
async def program(*arguments: str) -> AsyncIterator[str]:
    """Run kubesim until the block ends; yields the line in which it says that it is ready."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubesim", *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode()
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


def connect(kubeconfig: Path) -> ClientSession:
    """Return a session with a kubeconfig's server, CA and token."""
    config: dict[str, Any] = yaml.safe_load(kubeconfig.read_bytes())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    headers = {"Authorization": f"Bearer {user['token']}"}
    return ClientSession(cluster["server"], connector=TCPConnector(ssl=trust), headers=headers)


async def ready(folder: Path) -> float:
    """Return the seconds from starting the program to its first answer."""
    start = time.perf_counter()
    file = folder / "kubeconfig"
    async with program("serve", "--kubeconfig", str(file)), connect(file) as client:
        async with client.get("/api/v1/nodes") as response:
            response.raise_for_status()
        return time.perf_counter() - start


async def fresh(folder: Path) -> float:
    """Return the median seconds that the control API needs for one more cluster of three nodes."""
    async with program("host", "--data", str(folder)) as line:
        url = next(word for word in line.split() if word.startswith("https://"))
        trust = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        token = (folder / "control-token").read_text(encoding="ascii").strip()
        headers = {"Authorization": f"Bearer {token}"}
        async with ClientSession(url, connector=TCPConnector(ssl=trust), headers=headers) as client:
            times = []
            for number in range(CLUSTERS):
                start = time.perf_counter()
                async with client.post("/control/clusters", json={"name": f"c{number}"}) as response:
                    response.raise_for_status()
                times.append(time.perf_counter() - start)
        return statistics.median(times)


async def answers(folder: Path) -> list[float]:
    """Return milliseconds per POST of a pod, per list of 1,000 pods as JSON, and as a Table."""
    file = folder / "answers"
    async with program("serve", "--kubeconfig", str(file)), connect(file) as client:
        path = "/api/v1/namespaces/default/pods"
        start = time.perf_counter()
        await asyncio.gather(*(_post(client, path, PODS // WRITERS) for _ in range(WRITERS)))
        per_post = (time.perf_counter() - start) / (PODS // WRITERS * WRITERS)
        plain = await _fastest(client, path, "application/json")
        table = await _fastest(client, path, TABLE)
    return [seconds * 1000 for seconds in (per_post, plain, table)]


async def _post(client: ClientSession, path: str, count: int) -> None:
    """Create some pods, one after the other."""
    for _ in range(count):
        async with client.post(path, json=POD) as response:
            response.raise_for_status()
            await response.read()


async def _fastest(client: ClientSession, path: str, accept: str) -> float:
    """Return the median seconds of a list."""
    times = []
    for _ in range(ROUNDS * 2):
        start = time.perf_counter()
        async with client.get(path, headers={"Accept": accept}) as response:
            await response.read()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


async def measure() -> list[Figure]:
    """Measure everything."""
    with tempfile.TemporaryDirectory(prefix="kubesim-bench-") as name:
        folder = Path(name)
        started = [await ready(folder) for _ in range(ROUNDS)]
        born = await fresh(folder / "host")
        post, plain, table = await answers(folder)
    return [
        Figure("ready", statistics.median(started), "s", 1.0),
        Figure("fresh cluster", born * 1000, "ms", 100),
        Figure("POST a pod, TLS and RBAC", post, "ms", 2 / 3),
        Figure("list 1,000 pods as JSON", plain, "ms", 10),
        Figure("list 1,000 pods as Table", table, "ms", 15),
    ]


def main() -> int:
    """Run the benchmark."""
    return report("kubesim", asyncio.run(measure()))
