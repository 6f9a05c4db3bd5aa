"""The programs that are measured, started and ended: kubesim, and a real control plane where its binaries are."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import yaml
from aiohttp import ClientSession, TCPConnector

from deploy.testcluster.testcluster import PROGRAMS, Testcluster

BINARIES = Path(os.environ.get("TESTCLUSTER_BIN", Path.home() / ".cache/faultline/testcluster-bin"))
BYTECODE = Path.home() / ".cache/faultline/bench-bytecode"
TICKS = os.sysconf("SC_CLK_TCK")
READY_S = 60.0


@dataclass(frozen=True)
class Server:
    """A control plane that runs: its administrator's session, its processes, and the seconds until it was ready."""

    client: ClientSession
    pids: tuple[int, ...]
    ready: float

    def memory(self) -> float:
        """Return the MB of memory that it has in use."""
        return sum(map(resident, self.pids))

    def seconds(self) -> float:
        """Return the processor time that it has used."""
        return sum(map(seconds_of, self.pids))


def compiled() -> dict[str, str]:
    """Return the environment in which Python keeps what it has compiled, as it does where nobody forbids it.

    In a folder of its own, so that nothing is left in the tree.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(BYTECODE)}


@asynccontextmanager
async def program(*arguments: str) -> AsyncIterator[tuple[str, int]]:
    """Run kubesim until the block ends; yields the line in which it says that it is ready, and its process id."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubesim", *arguments, stdout=asyncio.subprocess.PIPE, env=compiled()
    )
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode(), process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


@asynccontextmanager
async def kubesim(folder: Path, *arguments: str) -> AsyncIterator[Server]:
    """Run one cluster of kubesim; it is ready when it has answered."""
    start = time.perf_counter()
    file = folder / "kubeconfig"
    async with program("serve", "--kubeconfig", str(file), *arguments) as (_, pid), connect(file) as client:
        await _answers(client)
        yield Server(client, (pid,), time.perf_counter() - start)


def found() -> bool:
    """Return whether a real control plane can be started."""
    return all(os.access(BINARIES / name, os.X_OK) or shutil.which(name) for name in PROGRAMS)


@asynccontextmanager
async def real(folder: Path) -> AsyncIterator[Server]:
    """Run a real control plane; it is ready when it has answered."""
    start = time.perf_counter()
    cluster = Testcluster(folder, BINARIES)
    try:
        file = await asyncio.to_thread(cluster.up)
        async with connect(file) as client:
            await _answers(client)
            yield Server(client, tuple(cluster.running().values()), time.perf_counter() - start)
    finally:
        await asyncio.to_thread(cluster.down)


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


def connect(kubeconfig: Path) -> ClientSession:
    """Return a session with a kubeconfig's server, authority, and token or certificate."""
    config: dict[str, Any] = yaml.safe_load(kubeconfig.read_bytes())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    trust = ssl.create_default_context(cafile=cluster.get("certificate-authority"))
    if data := cluster.get("certificate-authority-data"):
        trust.load_verify_locations(cadata=base64.b64decode(data).decode())
    if "client-certificate" in user:
        trust.load_cert_chain(user["client-certificate"], user["client-key"])
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    return ClientSession(cluster["server"], connector=TCPConnector(ssl=trust, limit=0), headers=headers)


async def create(client: ClientSession, path: str, body: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Post one object and return the answer."""
    async with client.post(
        path, data=orjson.dumps(body), headers={"Content-Type": "application/json"} | more
    ) as found:
        content = await found.read()
        if found.status >= 300:
            raise RuntimeError(f"POST {path}: {content.decode()}")
        answer: dict[str, Any] = orjson.loads(content)
        return answer


async def create_all(client: ClientSession, path: str, bodies: Iterable[dict[str, Any]], at_once: int = 16) -> None:
    """Create many objects, some at once."""
    left = iter(bodies)

    async def some() -> None:
        for body in left:
            await create(client, path, body)

    await asyncio.gather(*(some() for _ in range(at_once)))


async def until_there(client: ClientSession, path: str) -> None:
    """Wait until an object exists that a controller makes."""
    async with asyncio.timeout(30):
        while True:
            async with client.get(path) as response:
                if response.status == 200:
                    return
            await asyncio.sleep(0.05)


async def _answers(client: ClientSession) -> None:
    """Return once the API has answered as it does when all is there."""
    async with asyncio.timeout(READY_S):
        async with client.get("/api/v1/nodes") as response:
            response.raise_for_status()


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and theirs."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    children = [int(child) for child in path.read_text().split()] if path.exists() else []
    return [found for child in children for found in (child, *descendants(child))]


def private(pid: int) -> float:
    """Return the MB of memory that a process shares with no other."""
    return _rollup(pid, "Private_")


def proportional(pid: int) -> float:
    """Return the MB of memory of a process and of all that it has started; what they share counts once."""
    return sum(_rollup(found, "Pss:") for found in (pid, *descendants(pid)))


def _rollup(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def resident(pid: int) -> float:
    """Return the MB of memory that a process has in use."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def seconds_of(pid: int) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
