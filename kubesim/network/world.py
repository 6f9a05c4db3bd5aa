"""Hosts outside of the cluster: what each of them answers, and how far away it is (``hosts.yaml``)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from kubesim import data
from kubesim.network.fabric import Duplex, HttpServer, Registry, Request, Response
from kubesim.shell.errors import NetworkError
from kubesim.shell.wayout import Hop

WEB, SECURE = 80, 443
HTTPS = "https"
Answer = tuple[int, Mapping[str, str], str]
NOTHING: Answer = (404, {"Content-Type": "text/html"}, "<html><head><title>404 Not Found</title></head></html>\n")


@dataclass(frozen=True, slots=True)
class OutsideHost:
    """One host; see the head of ``hosts.yaml`` for the fields."""

    name: str
    addresses: tuple[str, ...]
    rtt: float
    icmp: bool = True
    ports: Mapping[int, str] = field(default_factory=lambda: {WEB: "", SECURE: ""})
    refuses: bool = False
    plain: str = HTTPS
    server: str = ""
    answers: Mapping[str, Answer] = field(default_factory=dict)

    def answer(self, path: str) -> Answer:
        """Return what is answered for a path: its own answer, or that of the longest pattern that fits."""
        if path in self.answers:
            return self.answers[path]
        fitting = [key for key in self.answers if key.endswith("*") and path.startswith(key[:-1])]
        return self.answers[max(fitting, key=len)] if fitting else NOTHING


@cache
def outside_hosts() -> dict[str, OutsideHost]:
    """Return the hosts by their names."""
    rows: dict[str, Any] = data.read(Path(__file__).with_name("hosts.yaml"))
    return {name: OutsideHost(name, tuple(row.pop("addresses")), **row) for name, row in rows.items()}


def host_at(address: str, name: str = "") -> OutsideHost | None:
    """Return the host of an address: the one of that name, where several share it."""
    found = [host for host in outside_hosts().values() if address in host.addresses]
    return next((host for host in found if host.name == name), found[0] if found else None)


class OutsideServer(HttpServer):
    """A port of an address outside."""

    def __init__(self, address: str, port: int, registry: Registry = lambda name, request: None) -> None:
        """Raise ``NetworkError`` where nothing listens there. ``registry`` answers what depends on images."""
        self._address, self._port, self._registry = address, port, registry
        host = host_at(address)
        if host is None or port not in host.ports:
            raise NetworkError("refused" if host is not None and host.refuses else "timeout")
        self._greeting = host.ports[port]

    async def respond(self, request: Request) -> Response:
        """Answer an HTTP request as the host that it names, or the first one of the address."""
        name = request.headers.get("host", "").partition(":")[0]
        host = host_at(self._address, name)
        if host is None or self._port not in (WEB, SECURE):
            raise NetworkError("reset")
        server = {"Server": host.server} if host.server else {}
        if self._port == WEB and host.plain == HTTPS:
            return Response(301, b"", {**server, "Location": f"https://{name or host.name}{request.target}"})
        if (found := self._registry(host.name, request)) is not None:
            return replace(found, headers={**found.headers, **server})
        status, headers, body = host.answer(request.path)
        filled = {key: value.replace("{target}", request.target) for key, value in headers.items()}
        return Response(status, body.replace("{target}", request.target).encode(), {**filled, **server})

    async def converse(self, connection: Duplex, source: str) -> None:
        """Serve a raw connection: some servers speak first."""
        if not self._greeting:
            await super().converse(connection, source)
            return
        await connection.write(self._greeting.encode())
        while await connection.read():
            pass


GOOGLE = ("142.251.60.143", "142.250.236.71")
"""Routers between a machine of the cloud and the world."""
LOOPBACK_MS, NODE_MS, ZONE_MS, EDGE_MS = 0.041, 0.083, 0.412, 0.93
FAR_TTL = 128


def hop(address: str, source: str) -> Hop:
    """Return a hop as seen from ``source``."""
    if address in (source, "127.0.0.1"):
        return Hop(address, LOOPBACK_MS)
    if address in GOOGLE:
        return Hop(address, EDGE_MS)
    if (host := host_at(address)) is not None:
        return Hop(address, host.rtt, FAR_TTL - 6 - zlib.crc32(host.name.encode()) % 14)
    near = address.rpartition(".")[0] == source.rpartition(".")[0]
    return Hop(address, NODE_MS if near else ZONE_MS, 63 if near else 62)
