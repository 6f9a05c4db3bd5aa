"""What a container reaches outside of itself: the network, and the API server with its account's token."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from kubesim.shell.handles import Messages, Reader, Writer
from kubesim.shell.lookup import Answer, ResolvConf


class Network(Protocol):
    """The network as this container reaches it; all raise ``errors.NetworkError``."""

    @property
    def config(self) -> ResolvConf:
        """Whom the container asks for names, and how it completes them."""

    async def ask(self, name: str, kind: str, server: str = "") -> Answer:
        """Return what a name server (the container's own, unless one is given) says of an absolute name."""

    async def resolve(self, name: str) -> list[str]:
        """Return the addresses of a name, short or absolute."""

    async def connect(self, host: str, port: int) -> tuple[Reader, Writer]:
        """Open a TCP connection."""

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
