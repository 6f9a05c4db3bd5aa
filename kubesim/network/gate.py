"""What stands between a pod and what it wants to reach: network policies, and the firewall of the cloud."""

from __future__ import annotations

from kubesim.client import Reader
from kubesim.errors import ApiError, Obj
from kubesim.network.fabric import Fabric
from kubesim.network.policy import Party, Policies, party

API_SERVER = Party("172.16.0.2")
"""Where the service of the API leads: no policy knows a service's own address."""
NAME_SERVER = Party("10.65.0.10", "kube-system", {"k8s-app": "kube-dns"}, {"dns": 53, "dns-tcp": 53})
"""Who answers for names in a cluster without pods for that."""
POLICIES = "networkpolicies.networking.k8s.io"


class Gate:
    """Lets the traffic of one address through or drops it. ``tags``: those of its node in the cloud's firewall."""

    def __init__(self, client: Reader, fabric: Fabric, address: str, tags: frozenset[str] = frozenset()) -> None:
        self._client = client
        self._fabric = fabric
        self._address = address
        self._tags = tags

    async def opens(self, address: str, port: int, protocol: str = "TCP") -> bool:
        """Whether a connection to an address gets there."""
        if not self._fabric.firewall.passes(self._tags, address, port, protocol.lower()):
            return False
        policies = await self._policies()
        return not policies or await self._permit(policies, await self._party(address), port, protocol)

    async def admits(self, target: Party, port: int, protocol: str = "TCP") -> bool:
        """Whether policies permit a connection to somebody."""
        policies = await self._policies()
        return not policies or await self._permit(policies, target, port, protocol)

    async def _permit(self, policies: list[Obj], target: Party, port: int, protocol: str) -> bool:
        spaces = (await self._client.list("namespaces")).items
        labels = {item["metadata"]["name"]: item["metadata"].get("labels") or {} for item in spaces}
        own = await self._party(self._address)
        return Policies(tuple(policies), labels).allow(own, target, port, protocol)

    async def _party(self, address: str) -> Party:
        return party(address, (await self._client.list("pods")).items)

    async def _policies(self) -> list[Obj]:
        """Return the policies; none where they may not be read, as with nodes that have joined a cluster."""
        try:
            return (await self._client.list(POLICIES)).items
        except ApiError:
            return []
