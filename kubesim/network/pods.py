"""The network as one pod reaches it: names, services, other pods."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from kubesim.client import Client
from kubesim.errors import ApiError, Obj
from kubesim.network.door import SERVICE_ADDRESS, SERVICE_PORT
from kubesim.network.fabric import Fabric, Request, Server
from kubesim.network.pairs import Ends, joined
from kubesim.shell.errors import NetworkError

DOMAIN = "cluster.local"
LOCAL = ("localhost", "127.0.0.1", "::1")


class PodNetwork:
    """What the programs of one pod see of the network; every call raises ``NetworkError``."""

    def __init__(self, client: Client, fabric: Fabric, address: str, namespace: str) -> None:
        self._client = client
        self._fabric = fabric
        self._address = address
        self._namespace = namespace

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
            pass
        service, namespace = self._service_name(name)
        found = await self._get("services", service, namespace)
        if found is None:
            raise NetworkError("nxdomain")
        address = found["spec"].get("clusterIP")
        if address and address != "None":
            return [str(address)]
        return [place[0] for place in await self._places(found, None)]

    def _service_name(self, name: str) -> tuple[str, str]:
        """Return service and namespace of a name, completed as resolv.conf's search list does."""
        parts = name.rstrip(".").removesuffix(f".svc.{DOMAIN}").removesuffix(".svc").split(".")
        if len(parts) > 2:
            raise NetworkError("nxdomain")
        return parts[0], parts[1] if len(parts) == 2 else self._namespace

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
        for service in (await self._client.list("services")).items:
            if address[0] in (service["spec"].get("clusterIPs") or [service["spec"].get("clusterIP")]):
                places = await self._places(service, port)
                if not places:
                    raise NetworkError("refused")
                return self._fabric.find(*places[0])
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
