"""A running ``kubesim host`` for tests: a program of its own."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from kubesim import data
from kubesim.tests import warmed
from kubesim.tests.live import session

PATIENCE_S = 60.0
NO_IMAGES = "from kubesim import hosting\nhosting.USUAL = ()"
"""Taking images of the usual clusters costs a second of CPU; those of tests have one node, and begin without."""


@dataclass
class RunningHost:
    """A host and where it keeps its clusters."""

    process: subprocess.Popen | warmed.Forked
    folder: Path
    url: str

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.folder / "ca.crt"))

    @property
    def token(self) -> str:
        return (self.folder / "control-token").read_text().strip()

    def client(self, token: str = "", **headers: str) -> AbstractAsyncContextManager[ClientSession]:
        """Return a session with a token, or with none."""
        return session(self.url, self.trust, token, **headers)

    def control(self) -> AbstractAsyncContextManager[ClientSession]:
        """Return a session of the control API."""
        return self.client(self.token)

    def children(self) -> list[int]:
        """Return the processes that the host has started: the front first, then one for each cluster."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    async def raw(self, data: bytes) -> bytes:
        """Send bytes over TLS and return all that comes back."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trust)
        writer.write(data)
        answer = b""
        with suppress(ConnectionError):
            while piece := await reader.read(65536):
                answer += piece
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        return answer


async def make(client: ClientSession, **fields: Any) -> tuple[int, dict[str, Any]]:
    """Ask for a cluster, of one node where nothing else is said."""
    async with client.post("/control/clusters", json={"nodes": 1, **fields}) as response:
        return response.status, await response.json()


def token_of(made: dict[str, Any]) -> str:
    """Return the administrator's token of a cluster that was made."""
    return data.parse(made["kubeconfig"])["users"][0]["user"]["token"]


@asynccontextmanager
async def cluster(host: RunningHost, name: str, **fields: Any) -> AsyncIterator[ClientSession]:
    """Make a cluster, yield a session of its administrator, and drop it."""
    async with host.control() as control:
        code, made = await make(control, name=name, **fields)
        assert code == 201, made
        async with host.client(token_of(made)) as admin:
            yield admin
        async with control.delete(f"/control/clusters/{name}") as response:
            assert response.status in (200, 404)


async def shown(host: RunningHost, name: str) -> dict[str, Any]:
    """Return what the control API tells of a cluster."""
    async with host.control() as control, control.get(f"/control/clusters/{name}") as response:
        return await response.json()


async def until(condition: Callable[[], Any]) -> Any:
    """Wait for a condition, which may be a coroutine function; returns what it returned."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = condition()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.02)


def gone(pid: int) -> bool:
    """Return whether a process has ended; one that nobody has reaped yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def start(folder: Path, *arguments: Any, defect: str = NO_IMAGES) -> RunningHost:
    """Start a host and wait until it is ready; ``defect`` is Python that runs first, and breaks something.

    Without any it is started as the supervisor starts it, else forked from what has read all modules.
    """
    words = ["host", "--data", str(folder), *map(str, arguments)]
    process: subprocess.Popen | warmed.Forked
    if defect:
        process = warmed.start(defect, *words)
    else:
        process = subprocess.Popen([sys.executable, "-m", "kubesim", *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "is ready at" in line, line
    return RunningHost(process, folder, next(word for word in line.split() if word.startswith("https://")))


def stop(host: RunningHost, number: int = signal.SIGTERM) -> int:
    """End a host and return its exit status."""
    with suppress(ProcessLookupError):
        os.kill(host.process.pid, number)
    status = host.process.wait(PATIENCE_S)
    assert host.process.stdout is not None
    host.process.stdout.close()
    return status


@contextmanager
def running(folder: Path, *arguments: Any, defect: str = NO_IMAGES) -> Iterator[RunningHost]:
    """Run a host while the block lasts."""
    host = start(folder, *arguments, defect=defect)
    try:
        yield host
    finally:
        stop(host)


def certificate_authority(made: dict[str, Any]) -> str:
    """Return the authority in a kubeconfig, as PEM."""
    authority = data.parse(made["kubeconfig"])["clusters"][0]["cluster"]["certificate-authority-data"]
    return base64.b64decode(authority).decode()
