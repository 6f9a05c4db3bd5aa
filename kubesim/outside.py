"""The API server's way out of the process: to kubelets, and the pods of their nodes, that others run.

Where it leads is told by objects: whoever may write a Node chooses an address. So nothing is reached but the networks
that whoever started the server has named, by default this machine's own loopback for one cluster and none at all
where many clusters share a process. What goes wrong is told as Go's clients tell it.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorError,
    ClientConnectorSSLError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    TCPConnector,
)
from multidict import CIMultiDict
from yarl import URL

from kubesim.connections import Connections
from kubesim.errors import ApiError, Obj

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
LOOPBACK: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
KUBELET_PORT = 10250
DIAL_SECONDS = 30.0
MOST_CONNECTIONS = 256
MOST_TOLD = 64
PLAIN = "http: server gave HTTP response to HTTPS client"
REFUSALS = {
    errno.ECONNREFUSED: "connect: connection refused",
    errno.EHOSTUNREACH: "connect: no route to host",
    errno.ENETUNREACH: "connect: network is unreachable",
    errno.ETIMEDOUT: "connect: connection timed out",
    errno.ECONNRESET: "read: connection reset by peer",
}
PREFERRED = ("InternalIP", "ExternalIP", "Hostname")
"""Which of a node's addresses is taken: what kubeadm gives as --kubelet-preferred-address-types."""
log = logging.getLogger(__name__)


class DialError(Exception):
    """Nothing answers there; the message is what a Go client says of it, ``dialled`` what a mere dialler says."""

    def __init__(self, text: str, dialled: str = "") -> None:
        super().__init__(text)
        self.dialled = dialled or text


@dataclass(frozen=True, slots=True)
class Target:
    """A host with a port, spoken to over TLS or not."""

    host: str
    port: int
    secure: bool = True

    @property
    def place(self) -> str:
        """Return host and port as Go joins them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def url(self, path: str) -> str:
        """Return the URL of a path, which may have a query."""
        return f"http{'s' if self.secure else ''}://{self.place}{path}"


def kubelet_of(node: Obj) -> Target:
    """Return where a node's kubelet is. Raises ``ApiError`` 500 where the node does not tell."""
    status = node.get("status", {})
    known = status.get("addresses") or []
    endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
    for kind in PREFERRED:
        for item in known:
            if item["type"] == kind:
                return Target(item["address"], int(endpoint.get("Port") or KUBELET_PORT))
    listed = " ".join(f"{{{item['type']} {item['address']}}}" for item in known)
    raise ApiError(500, "", f"no preferred addresses found; known addresses: [{listed}]")


@dataclass(frozen=True, slots=True)
class Call:
    """One request; ``path`` begins with a slash and may have a query, both as they are to be sent."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: AsyncIterator[bytes] | None = None


class Outside:
    """What lies in some networks. ``context`` is asked for when something is first called: how to speak TLS."""

    def __init__(
        self, networks: Sequence[Network] = (), context: Callable[[], ssl.SSLContext] = ssl.create_default_context
    ) -> None:
        self._networks = networks
        self._context = context
        self._session: ClientSession | None = None
        self._connections = Connections()
        self._told: set[str] = set()

    async def close(self) -> None:
        """Hang up everywhere."""
        if self._session is not None:
            await self._session.close()
            self._session = None
        await self._connections.end()

    @property
    def there(self) -> bool:
        """Whether anything may be reached."""
        return bool(self._networks)

    def allows(self, address: Address) -> bool:
        """Whether an address may be reached."""
        return any(address in network for network in self._networks)

    @asynccontextmanager
    async def asked(self, target: Target, call: Call) -> AsyncIterator[ClientResponse]:
        """Send a request and yield the answer, of which only the head has been read. Raises ``DialError``."""
        session, url = self._open(), await self._resolved(target, call.path)
        headers = CIMultiDict({"Host": target.place})
        headers.update(call.headers)
        try:
            answer = await session.request(
                call.method, url, headers=headers, data=call.body, allow_redirects=False, skip_auto_headers=AUTOMATIC
            )
        except TimeoutError as error:
            raise DialError(f"dial tcp {target.place}: i/o timeout") from error
        except (ClientError, OSError) as error:
            raise _dial_error(target, error) from error
        try:
            yield answer
        finally:
            answer.close()

    async def _resolved(self, target: Target, path: str) -> URL:
        """Return a request's URL with an address that may be reached in place of the host. Raises ``DialError``."""
        for address in await addresses(target.host):
            if self.allows(address):
                return URL(Target(str(address), target.port, target.secure).url(path), encoded=True)
        self._tell(target.host)
        raise DialError(f"dial tcp {target.place}: connect: network is unreachable")

    def _tell(self, host: str) -> None:
        """Say once why a host is not reached."""
        if host not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(host)
            log.warning("a kubelet at %s is not asked: it is in none of the networks of --kubelets", host)

    def _open(self) -> ClientSession:
        if self._session is None:
            connector = TCPConnector(
                ssl=self._context(), limit=MOST_CONNECTIONS, force_close=True, socket_factory=self._connections.make
            )
            timeout = ClientTimeout(total=None, connect=DIAL_SECONDS)
            self._session = ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        return self._session


AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""What aiohttp would say of itself in requests that are somebody else's."""


async def whole(answer: ClientResponse, most: int) -> bytes:
    """Return an answer's body as far as it comes, and at most so many bytes of it."""
    found = bytearray()
    with suppress(ClientError):
        while len(found) < most and (piece := await answer.content.read(most - len(found))):
            found += piece
    return bytes(found)


async def addresses(host: str) -> list[Address]:
    """Return what a host is called by numbers. Raises ``DialError``."""
    try:
        return [ipaddress.ip_address(host)]
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise DialError(f"dial tcp: lookup {host}: no such host") from error
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


def _dial_error(target: Target, error: Exception) -> DialError:
    """Return what went wrong as Go words it."""
    if isinstance(error, ClientConnectorCertificateError):
        return DialError(f"tls: failed to verify certificate: x509: {error.certificate_error}")
    if isinstance(error, ClientConnectorSSLError):
        if "WRONG_VERSION_NUMBER" in str(error) or "HTTP_REQUEST" in str(error):
            return DialError(PLAIN, "tls: first record does not look like a TLS handshake")
        return DialError(f"remote error: tls: {error.os_error.strerror or 'handshake failure'}")
    number = error.os_error.errno if isinstance(error, ClientConnectorError) else getattr(error, "errno", None)
    if isinstance(error, ClientConnectorError) or number in REFUSALS:
        return DialError(f"dial tcp {target.place}: {REFUSALS.get(number or 0, 'connect: connection refused')}")
    return DialError("EOF")
