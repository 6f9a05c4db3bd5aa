"""A running kubesim for tests: the server in a thread of its own, reached over TLS as any client would."""

from __future__ import annotations

import asyncio
import base64
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson
from aiohttp import ClientSession, TCPConnector

from kubesim import data
from kubesim.clock import RealClock
from kubesim.cluster import Cluster, ClusterSpec
from kubesim.connections import Connections
from kubesim.pki import CertificateAuthority
from kubesim.serve import Address, single

T = TypeVar("T")


@dataclass
class Live:
    """One cluster that answers."""

    cluster: Cluster
    loop: asyncio.AbstractEventLoop
    kubeconfig: Path

    @property
    def authority(self) -> CertificateAuthority:
        """The authority that the cluster's certificates come from."""
        return CertificateAuthority.load(self.kubeconfig.parent / "data")

    @property
    def url(self) -> str:
        return self.cluster.server

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def config(self) -> dict[str, Any]:
        return data.parse(self.cluster.admin_kubeconfig())

    @property
    def token(self) -> str:
        return self.config["users"][0]["user"]["token"]

    def ask(self, call: Callable[[Cluster], T]) -> T:
        """Run a call inside the server's loop and return what it returns."""

        async def run() -> T:
            return call(self.cluster)

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(30)

    def trust(self) -> ssl.SSLContext:
        """Return a context that trusts this cluster's CA."""
        return trust_of(self.cluster.admin_kubeconfig())

    def client(self, token: str | None = None, **headers: str) -> AbstractAsyncContextManager[ClientSession]:
        """Return a session as the administrator, or with another token ("" for none)."""
        return session(self.url, self.trust(), self.token if token is None else token, **headers)


def trust_of(kubeconfig: str) -> ssl.SSLContext:
    authority = data.parse(kubeconfig)["clusters"][0]["cluster"]["certificate-authority-data"]
    return ssl.create_default_context(cadata=base64.b64decode(authority).decode())


@asynccontextmanager
async def session(url: str, trust: ssl.SSLContext, token: str, **headers: str) -> AsyncIterator[ClientSession]:
    """Yield a session; its sockets are really closed when the block ends, also those of watches left early."""
    connections = Connections()
    if token:
        headers["Authorization"] = f"Bearer {token}"
    connector = TCPConnector(ssl=trust, socket_factory=connections.make)
    try:
        async with ClientSession(url, connector=connector, headers=headers, json_serialize=_dumps) as client:
            yield client
    finally:
        await connections.end()


def _dumps(value: Any) -> str:
    return orjson.dumps(value).decode()


@asynccontextmanager
async def serving_here(folder: Path, nodes: int = 3, gpus: int = 8) -> AsyncIterator[Live]:
    """Run a cluster on 127.0.0.1, on this loop, while the block lasts; its admin kubeconfig lies in ``folder``."""
    clock = RealClock()
    spec = ClusterSpec("test", clock.now(), nodes, gpus)
    async with single(spec, Address(), clock, folder / "data") as cluster:
        path = folder / "kubeconfig"
        path.write_text(cluster.admin_kubeconfig())
        yield Live(cluster, asyncio.get_running_loop(), path)


@contextmanager
def serving(folder: Path, nodes: int = 3, gpus: int = 8) -> Iterator[Live]:
    """Run a cluster in a thread of its own while the block lasts; its admin kubeconfig lies in ``folder``."""
    started: list[tuple[Live, asyncio.Event]] = []
    ready = threading.Event()

    async def run() -> None:
        async with serving_here(folder, nodes, gpus) as live:
            done = asyncio.Event()
            started.append((live, done))
            ready.set()
            await done.wait()

    thread = threading.Thread(target=_run, args=(run, ready), daemon=True)
    thread.start()
    ready.wait(30)
    live, done = started[0]
    try:
        yield live
    finally:
        live.loop.call_soon_threadsafe(done.set)
        thread.join(30)


def _run(run: Callable[[], Awaitable[None]], ready: threading.Event) -> None:
    try:
        asyncio.run(run())  # type: ignore[arg-type]
    finally:
        ready.set()
