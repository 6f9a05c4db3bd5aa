"""The network as one pod reaches it: names, services, other pods, hosts outside."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from kubesim.client import Reader
from kubesim.errors import ApiError, Obj
from kubesim.network.dns import ClusterNames, outside
from kubesim.network.door import SERVICE_ADDRESS, SERVICE_PORT
from kubesim.network.fabric import Ends, Fabric, Request, Server, joined
from kubesim.network.policy import API_SERVER, NAME_SERVER, Gate, pod_of
from kubesim.network.world import ADDRESS as METADATA
from kubesim.network.world import GOOGLE, WEB, MetadataServer, OutsideServer, has_metadata, hop, host_at
from kubesim.shell.errors import NetworkError
from kubesim.shell.lookup import Answer, ResolvConf, parse, search
from kubesim.shell.wayout import Hop

CLUSTER_RESOLVER, NODE_RESOLVER = "10.96.0.10", "169.254.169.254"
"""The address that pods ask for names, and the one that nodes ask. A cluster without a DNS service of its own answers
at the first all the same, so that a small practice cluster needs no pods for it."""
DNS_PORT = 53
LOCAL = ("localhost", "127.0.0.1", "::1")


class PodNetwork:
    """What the programs of one pod see of the network; every call raises ``NetworkError``.

    ``config`` returns the text of the pod's resolv.conf; ``gate`` says what its traffic may reach; ``node`` is whose
    metadata server it asks.
    """

    def __init__(
        self,
        client: Reader,
        fabric: Fabric,
        address: str,
        config: Callable[[], str],
        gate: Gate | None = None,
        node: str = "",
    ) -> None:
        self._client = client
        self._fabric = fabric
        self._address = address
        self._config = config
        self._names = ClusterNames(client)
        self._gate = gate or Gate(client, fabric, address)
        self._node = node
        self._last = ""
        """The address that was connected to last."""

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

    def ports(self) -> list[int]:
        """Return the open ports of the pod."""
        return self._fabric.ports(self._address)

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
                return await self._answer(each, name, kind)
            except NetworkError as error:
                failed = error
        raise failed

    async def _answer(self, server: str, name: str, kind: str) -> Answer:
        """Return what one name server says: that of the cluster, or of its nodes, which knows only names outside."""
        if server == NODE_RESOLVER:
            return outside(name, kind)
        for service in await self._services(server):
            places = await self._places(service, DNS_PORT)
            if not places:
                raise NetworkError("again", "connection refused")
            if not await self._gate.opens(places[0][0], DNS_PORT, "UDP"):
                raise NetworkError("again", "timed out")
            return await self._names.ask(name, kind)
        if server == CLUSTER_RESOLVER and await self._gate.admits(NAME_SERVER, DNS_PORT, "UDP"):
            return await self._names.ask(name, kind)
        raise NetworkError("again", "timed out")

    async def _services(self, address: str) -> list[Obj]:
        """Return the service that has an address, if there is one."""
        services = (await self._client.list("services")).items
        return [service for service in services if address in _addresses(service)]

    async def _get(self, resource: str, name: str, namespace: str) -> Obj | None:
        try:
            return await self._client.get(resource, name, namespace)
        except ApiError:
            return None

    async def find(self, host: str, port: int) -> Server:
        """Return what answers at a host's port, through a service where it is one."""
        address = (await self.resolve(host))[:1] or [""]
        if self._fabric.door is not None and (address[0], port) in (
            (SERVICE_ADDRESS, SERVICE_PORT),
            (API_SERVER.address, SERVICE_PORT),
            self._fabric.door.place,
        ):
            await self.reach_api()
            return self._fabric.door
        if address[0] == "127.0.0.1":
            return self._fabric.find(self._address, port)
        place = await self._behind(address[0], port)
        if not await self._gate.opens(*place):
            raise NetworkError("timeout")
        if place == (METADATA, WEB):
            return await self._metadata()
        return (
            OutsideServer(*place, self._fabric.registry)
            if host_at(place[0]) is not None
            else self._fabric.find(*place)
        )

    async def _metadata(self) -> Server:
        """Return the metadata server of the machine that the pod runs on; raises ``NetworkError`` without a cloud."""
        node = await self._get("nodes", self._node, "") if self._node else None
        if node is None or not has_metadata(node):
            raise NetworkError("timeout")
        return MetadataServer(node)

    async def path(self, address: str) -> list[Hop]:
        """Return the routers on the way to an address, and itself last where echo requests are answered."""
        if address in (self._address, "127.0.0.1"):
            return [hop(address, self._address)]
        pods = await self._pods()
        here, there = pod_of(self._address, pods), pod_of(address, pods)
        ways = [] if here is None else [f"{self._address.rpartition('.')[0]}.1"]
        if there is not None and here is not None and there["spec"].get("nodeName") != here["spec"].get("nodeName"):
            ways.append(there["status"]["hostIP"])
        host = host_at(address)
        ways += GOOGLE if host is not None and address != METADATA else []
        answers = host.icmp if host is not None else self._fabric.attached(address) or address == API_SERVER.address
        if not await self._gate.opens(address, 0, "ICMP"):
            ways, answers = ways[:1], False
        return [hop(each, self._address) for each in (*ways, *([address] if answers else []))]

    async def _pods(self) -> list[Obj]:
        """Return all pods; none where they may not be read, as with nodes that have joined a cluster."""
        try:
            return (await self._client.list("pods")).items
        except ApiError:
            return []

    async def reach_api(self) -> None:
        """Return where policies let the pod reach the API server; raises ``NetworkError`` where they do not."""
        if not await self._gate.admits(API_SERVER, SERVICE_PORT):
            raise NetworkError("timeout")

    async def _behind(self, address: str, port: int) -> tuple[str, int]:
        """Return where a connection leads: behind a service's address, or behind its port on a node."""
        for service in await self._services(address):
            if all(item["port"] != port for item in service["spec"].get("ports") or ()):
                raise NetworkError("timeout")
            return self._one_of(await self._places(service, port))
        if self._fabric.attached(address):
            for service in (await self._client.list("services")).items:
                for item in service["spec"].get("ports") or ():
                    if item.get("nodePort") == port:
                        return self._one_of(await self._places(service, item["port"]))
        return address, port

    def _one_of(self, places: list[tuple[str, int]]) -> tuple[str, int]:
        if not places:
            raise NetworkError("refused")
        return self._fabric.next_of(places)

    async def _places(self, service: Obj, port: int) -> list[tuple[str, int]]:
        """Return the addresses and ports behind a service's port."""
        name = next((p.get("name", "") for p in service["spec"].get("ports") or () if p["port"] == port), None)
        found = await self._get("endpoints", service["metadata"]["name"], service["metadata"]["namespace"])
        return [
            (address["ip"], item["port"])
            for subset in (found or {}).get("subsets") or ()
            for item in subset.get("ports") or ()
            for address in subset.get("addresses") or ()
            if item.get("name", "") == name
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


def _addresses(service: Obj) -> set[str]:
    """Return the addresses of a service: its own, and those that a load balancer or an administrator gives it."""
    spec = service["spec"]
    balanced = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    found = [*(spec.get("clusterIPs") or [spec.get("clusterIP")]), *(spec.get("externalIPs") or ())]
    return {
        str(item) for item in (*found, *(entry.get("ip") for entry in balanced)) if item not in (None, "", "None")
    }
