"""The network as one pod reaches it: names, services, other pods."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from kubesim.client import Client
from kubesim.errors import ApiError, Obj
from kubesim.network.dns import ClusterNames, hosts, outside
from kubesim.network.door import SERVICE_ADDRESS, SERVICE_PORT
from kubesim.network.fabric import Fabric, HttpServer, Request, Response, Server
from kubesim.network.pairs import Ends, joined
from kubesim.shell.errors import NetworkError
from kubesim.shell.lookup import Answer, ResolvConf, parse, search

CLUSTER_RESOLVER, NODE_RESOLVER = "10.96.0.10", "169.254.169.254"
"""The address that pods ask for names, and the one that nodes ask. A cluster without a DNS service of its own answers
at the first all the same, so that a small practice cluster needs no pods for it."""
DNS_PORT, WEB_PORTS = 53, (80, 443)
LOCAL = ("localhost", "127.0.0.1", "::1")


class World(HttpServer):
    """A server outside: registries ask who is there, everything else says that it lives."""

    async def respond(self, request: Request) -> Response:
        """Answer a request."""
        if request.path.startswith("/v2"):
            challenge = f'Bearer realm="https://{request.headers.get("host", "")}/token"'
            body = b'{"errors":[{"code":"UNAUTHORIZED","message":"authentication required","detail":null}]}'
            return Response(401, body, {"Content-Type": "application/json", "WWW-Authenticate": challenge})
        return Response(200, b"<!doctype html><title>OK</title>\n", {"Content-Type": "text/html; charset=utf-8"})


class PodNetwork:
    """What the programs of one pod see of the network; every call raises ``NetworkError``.

    ``config`` returns the text of the pod's resolv.conf.
    """

    def __init__(self, client: Client, fabric: Fabric, address: str, config: Callable[[], str]) -> None:
        self._client = client
        self._fabric = fabric
        self._address = address
        self._config = config
        self._names = ClusterNames(client)

    @property
    def config(self) -> ResolvConf:
        """Whom the pod asks for names, and how it completes them."""
        return parse(self._config())

    def listen(self, port: int, server: Server) -> None:
        """Open a port of the pod."""
        self._fabric.listen(self._address, port, server)

    def close(self, port: int, server: Server) -> None:
        """Close a port, if it is still this server's."""
        self._fabric.close(self._address, port, server)

    async def resolve(self, name: str) -> list[str]:
        """Return the addresses of a name."""
        if name in LOCAL:
            return ["127.0.0.1"]
        try:
            return [str(ipaddress.ip_address(name.strip("[]")))]
        except ValueError:
            return (await search(name, self.config, self.ask)).addresses

    async def ask(self, name: str, kind: str, server: str = "") -> Answer:
        """Return what the first name server that can be reached says of an absolute name."""
        failed = NetworkError("again", "timed out")
        for each in (server,) if server else self.config.servers:
            try:
                return await self._ask(each, name, kind)
            except NetworkError as error:
                failed = error
        raise failed

    async def _ask(self, server: str, name: str, kind: str) -> Answer:
        """Ask one name server: that of the cluster, or that of its nodes, which knows only names outside."""
        if server == NODE_RESOLVER:
            return outside(name, kind)
        for service in await self._services(server):
            if not await self._places(service, DNS_PORT):
                raise NetworkError("again", "connection refused")
            return await self._names.ask(name, kind)
        if server == CLUSTER_RESOLVER:
            return await self._names.ask(name, kind)
        raise NetworkError("again", "timed out")

    async def _services(self, address: str) -> list[Obj]:
        """Return the service that has an address, if there is one."""
        services = (await self._client.list("services")).items
        return [service for service in services if service["spec"].get("clusterIP") == address]

    async def _get(self, resource: str, name: str, namespace: str) -> Obj | None:
        try:
            return await self._client.get(resource, name, namespace)
        except ApiError:
            return None

    async def find(self, host: str, port: int) -> Server:
        """Return what answers at a host's port, through a service where it is one."""
        address = (await self.resolve(host))[:1] or [""]
        if (address[0], port) == (SERVICE_ADDRESS, SERVICE_PORT) and self._fabric.door is not None:
            return self._fabric.door
        if address[0] == "127.0.0.1":
            return self._fabric.find(self._address, port)
        for service in await self._services(address[0]):
            places = await self._places(service, port)
            if not places:
                raise NetworkError("refused")
            return self._fabric.find(*places[0])
        if port in WEB_PORTS and any(address[0] in known for known in hosts().values()):
            return World()
        return self._fabric.find(address[0], port)

    async def _places(self, service: Obj, port: int | None) -> list[tuple[str, int]]:
        """Return the addresses and ports behind a service's port (None: any)."""
        name = next((p.get("name", "") for p in service["spec"].get("ports") or () if p["port"] == port), None)
        if port is not None and name is None:
            return []
        found = await self._get("endpoints", service["metadata"]["name"], service["metadata"]["namespace"])
        return [
            (address["ip"], item["port"])
            for subset in (found or {}).get("subsets") or ()
            for item in subset.get("ports") or ()
            for address in subset.get("addresses") or ()
            if port is None or item.get("name", "") == name
        ]

    async def connect(self, host: str, port: int) -> tuple[Ends, Ends]:
        """Open a TCP connection."""
        return joined(await self.find(host, port), self._address)

    async def http(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        """Make one HTTP request: the status, headers and body of the answer."""
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        server = await self.find(parts.hostname or "", port)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        sent = {"host": parts.netloc, **{name.lower(): value for name, value in headers.items()}}
        answer = await server.respond(Request(method, target, sent, body, self._address))
        return answer.status, dict(answer.headers), answer.body
