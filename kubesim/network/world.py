"""Hosts outside of the cluster (``hosts.yaml``), the way to them, and the metadata server of a cloud's machines."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from urllib.parse import parse_qs

import orjson

from kubesim import data
from kubesim.errors import Obj
from kubesim.network.fabric import HttpServer, Registry, Request, Response
from kubesim.shell.errors import NetworkError
from kubesim.shell.wayout import Hop
from kubesim.streaming.seam import Duplex

_table = data.beside(__file__, "metadata.yaml")
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
    rows: dict[str, Any] = data.table(__file__, "hosts.yaml")
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


ADDRESS = "169.254.169.254"
PROVIDER = "gce://"
FLAVOUR = "Metadata-Flavor"
HEAD = {
    FLAVOUR: "Google",
    "Server": "Metadata Server for VM",
    "X-XSS-Protection": "0",
    "X-Frame-Options": "SAMEORIGIN",
}


def project_number(project: str) -> int:
    """Return a project's number, which some names have in its identifier's place."""
    return 100_000_000_000 + zlib.crc32(project.encode()) * 17


def has_metadata(node: Obj) -> bool:
    """Tell whether a node is a machine of the cloud whose metadata server this is."""
    return str(node["spec"].get("providerID", "")).startswith(PROVIDER)


class MetadataServer(HttpServer):
    """Tells a machine of itself."""

    def __init__(self, node: Obj) -> None:
        self._tree: dict[str, Any] = {"computeMetadata": {"v1": _values(node)}, "0.1": {}}

    async def respond(self, request: Request) -> Response:
        """Answer for one key, for a folder (its names), or for all below it (``recursive=true``)."""
        path, asked = request.path, parse_qs(request.target.partition("?")[2])
        if path != "/" and request.headers.get(FLAVOUR.lower(), "") != "Google":
            return _page(403, path)
        found: Any = self._tree
        for name in filter(None, path.split("/")):
            found = found.get(name) if isinstance(found, dict) else None
        if found is None or (path.endswith("/") and not isinstance(found, dict)):
            return _page(404, path)
        if isinstance(found, dict) and asked.get("recursive", [""])[0].lower() == "true":
            return Response(200, orjson.dumps(_camel(found)), {**HEAD, "Content-Type": "application/json"})
        if isinstance(found, dict) and not path.endswith("/"):
            return Response(301, b"", {**HEAD, "Location": f"http://metadata.google.internal{path}/"})
        return Response(200, _text(found).encode(), {**HEAD, "Content-Type": "application/text"})


def _page(code: int, path: str) -> Response:
    headers = {**HEAD, "Content-Type": "text/html; charset=UTF-8"}
    return Response(code, _table()["pages"][code].replace("{path}", path).encode(), headers)


def _text(found: Any) -> str:
    if isinstance(found, dict):
        return "".join(f"{name}{'/' if isinstance(below, dict) else ''}\n" for name, below in sorted(found.items()))
    return str(found)


def _camel(found: Any) -> Any:
    """Return a tree with its names as the JSON form has them: attributes keep theirs."""
    if not isinstance(found, dict):
        return found
    named = {name: below if name == "attributes" else _camel(below) for name, below in found.items()}
    return {_joined(name): below for name, below in named.items()}


def _joined(name: str) -> str:
    first, *rest = name.split("-")
    return first + "".join(part.capitalize() for part in rest)


def _values(node: Obj) -> Any:
    project, zone, name = node["spec"]["providerID"].removeprefix(PROVIDER).split("/")
    labels, addresses = node["metadata"].get("labels") or {}, node["status"].get("addresses") or ()
    own = {
        "project": project,
        "number": str(project_number(project)),
        "zone": zone,
        "region": zone.rpartition("-")[0],
        "name": name,
        "id": str(zlib.crc32(name.encode()) * 1_000_000_007 + 10**18),
        "address": next((item["address"] for item in addresses if item["type"] == "InternalIP"), ""),
        "machine": labels.get("node.kubernetes.io/instance-type", ""),
        "uid": hashlib.sha256(project.encode()).hexdigest(),
    }
    return _filled(_table()["v1"], own)


def _filled(found: Any, own: Mapping[str, str]) -> Any:
    if isinstance(found, dict):
        return {key.format(**own): _filled(below, own) for key, below in found.items()}
    return found.format(**own)
