"""A container's interfaces, and its ways out: the network, and the API server with its account's token."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Mapping
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


class Network(Protocol):
    """The network as a container reaches it; all raise ``errors.NetworkError``."""

    @property
    def config(self) -> ResolvConf:
        """The servers that the container asks for names, and how it completes them."""

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
        self, method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Make one request with the caller's headers: the status, headers and body of the answer."""

    def stream(self, path: str, *, headers: Mapping[str, str] | None = None) -> AsyncIterator[bytes]:
        """Yield the pieces of a long answer: a watch, a followed log."""

    def open(self, path: str, *, headers: Mapping[str, str] | None = None) -> AbstractAsyncContextManager[Messages]:
        """Open a WebSocket: exec, attach, port-forward. Raises ``errors.UpgradeError`` where that is refused."""


SUBNET = 24


@dataclass(frozen=True, slots=True)
class Wire:
    """An interface; ``peer`` is the number of the other end of a pair, with its kind of name."""

    number: int
    name: str
    flags: str
    mtu: int
    state: str
    mac: str
    addresses: tuple[str, ...] = ()
    peer: str = ""
    space: str = ""

    @property
    def whole(self) -> str:
        """Its name as ip writes it."""
        return f"{self.name}{self.peer}"


@dataclass(frozen=True, slots=True)
class Ear:
    """A socket that listens, and whose it is (name and process; 0: nobody's that may be seen)."""

    address: str
    port: int
    name: str = ""
    pid: int = 0
    protocol: str = "tcp"


@dataclass(frozen=True, slots=True)
class Wires:
    """The network of a machine as its kernel shows it: interfaces, routes, and who listens."""

    wires: tuple[Wire, ...] = ()
    routes: tuple[str, ...] = ()
    ears: tuple[Ear, ...] = ()
    gateway: str = ""


LO = Wire(1, "lo", "LOOPBACK,UP,LOWER_UP", 65536, "UNKNOWN", "00:00:00:00:00:00", ("127.0.0.1/8",))
UP = "BROADCAST,MULTICAST,UP,LOWER_UP"


def _mac(text: str) -> str:
    number = zlib.crc32(text.encode())
    return "0a:58:" + ":".join(f"{number >> shift & 255:02x}" for shift in (24, 16, 8, 0))


def of_pod(address: str, ears: tuple[Ear, ...] = ()) -> Wires:
    """Return the network of a pod: one end of a pair whose other is on its node."""
    head = address.rpartition(".")[0]
    own = Wire(2, "eth0", UP, 1460, "UP", _mac(address), (f"{address}/{SUBNET}",), "@if7", " link-netnsid 0")
    routes = (f"default via {head}.1 dev eth0 ", f"{head}.0/{SUBNET} dev eth0 scope link src {address} ")
    return Wires((LO, own), routes, ears, f"{head}.1")


def of_node(address: str, pods: Mapping[str, str], ears: tuple[Ear, ...]) -> Wires:
    """Return the network of a node: its own interface, and one end of a pair for each pod (uid -> address)."""
    head = address.rpartition(".")[0]
    wires = [LO, Wire(2, "eth0", UP, 1460, "UP", _mac(address).replace("0a:58", "42:01"), (f"{address}/{SUBNET}",))]
    routes = [f"default via {head}.1 dev eth0 proto dhcp src {address} metric 100 "]
    routes += [f"{head}.0/{SUBNET} dev eth0 proto kernel scope link src {address} metric 100 "]
    for number, (uid, pod) in enumerate(sorted(pods.items(), key=lambda item: _order(item[1])), 7):
        name = f"veth{zlib.crc32(uid.encode()):08x}"
        gateway = f"{pod.rpartition('.')[0]}.1/32"
        wires.append(Wire(number, name, UP, 1460, "UP", _mac(uid), (gateway,), "@if2", f" link-netnsid {number - 7}"))
        routes.append(f"{pod} dev {name} scope host ")
    return Wires(tuple(wires), tuple(routes), ears, f"{head}.1")


def _order(address: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() else 0 for part in address.split("."))
