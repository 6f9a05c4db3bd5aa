"""What a container reaches outside of itself: the network, and the API server with its account's token."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from kubesim.shell.handles import Messages, Reader, Writer
from kubesim.shell.lookup import Answer, ResolvConf


@dataclass(frozen=True, slots=True)
class Hop:
    """A router or the target of packets; ``rtt`` is in milliseconds, ``ttl`` what an answer of it has left."""

    address: str
    rtt: float
    ttl: int = 64

    def measured(self, number: int) -> float:
        """Return the milliseconds of one answer, which vary a little from one to the next."""
        return self.rtt * (0.94 + (zlib.crc32(f"{self.address}/{number}".encode()) % 1000) / 6000)


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet as tcpdump sees it; ``text`` is what it carries, as tcpdump words it."""

    source: str
    target: str
    protocol: str
    text: str
    ports: tuple[int, int] = (0, 0)


class Network(Protocol):
    """The network as this container reaches it; all raise ``errors.NetworkError``."""

    @property
    def config(self) -> ResolvConf:
        """Whom the container asks for names, and how it completes them."""

    async def ask(self, name: str, kind: str, server: str = "") -> Answer:
        """Return what a name server (the container's own, unless one is given) says of an absolute name."""

    async def resolve(self, name: str) -> list[str]:
        """Return the addresses of a name, short or absolute."""

    def listen(self, port: int, server: Any) -> None:
        """Open a port for a server as those of ``network.fabric`` are."""

    def close(self, port: int, server: Any) -> None:
        """Close a port, if it is still this server's."""

    async def connect(self, host: str, port: int) -> tuple[Reader, Writer]:
        """Open a TCP connection."""

    async def path(self, address: str) -> list[Hop]:
        """Return the routers on the way to an address, and itself last where echo requests are answered."""

    async def find(self, host: str, port: int) -> Any:
        """Return the server that answers at a host's port, through a service where it is one."""

    def tap(self, see: Callable[[Packet], None]) -> Callable[[], None]:
        """Show every packet that comes and goes from now on; returns what ends that."""

    async def http(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        """Make one HTTP request: the status, headers and body of the answer."""


class KubeAccess(Protocol):
    """The pod's own way to the API server."""

    server: str
    namespace: str

    @property
    def token(self) -> str:
        """The token of the pod's account as it is now: it is renewed in its file."""

    async def request(
        self, method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str] = {}
    ) -> tuple[int, dict[str, str], bytes]:
        """Make one request with the caller's headers: the status, headers and body of the answer."""

    def stream(self, path: str, *, headers: Mapping[str, str] = {}) -> AsyncIterator[bytes]:
        """Yield the pieces of a long answer: a watch, a followed log."""

    def open(self, path: str, *, headers: Mapping[str, str] = {}) -> AbstractAsyncContextManager[Messages]:
        """Open a WebSocket: exec, attach, port-forward. Raises ``errors.UpgradeError`` where that is refused."""
