"""NetworkPolicy: whether one pod may open a connection to another, or to an address outside.

As the API documents it: a pod that no policy of a direction selects may do everything in that direction; one that is
selected may do what at least one of those policies allows; both ends must allow a connection.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kubesim.api.selectors import from_struct
from kubesim.client import Reader
from kubesim.errors import ApiError, Obj
from kubesim.network.fabric import Fabric

INGRESS, EGRESS = "Ingress", "Egress"


@dataclass(frozen=True, slots=True)
class Party:
    """One end of a connection; ``labels`` is None for what is no pod, or a pod in its node's network."""

    address: str
    namespace: str = ""
    labels: Mapping[str, str] | None = None
    ports: Mapping[str, int] = field(default_factory=dict)
    """The numbers of the ports that its containers name."""


def party(address: str, pods: Iterable[Obj]) -> Party:
    """Return who has an address among some pods."""
    if (pod := pod_of(address, pods)) is None:
        return Party(address)
    meta = pod["metadata"]
    return Party(address, meta["namespace"], meta.get("labels") or {}, _named_ports(pod))


def pod_of(address: str, pods: Iterable[Obj]) -> Obj | None:
    """Return the pod that has an address of its own, among some; None for that of a node."""
    for pod in pods:
        status, apart = pod.get("status", {}), not pod["spec"].get("hostNetwork")
        if apart and status.get("podIP") == address and status.get("phase") not in ("Succeeded", "Failed"):
            return pod
    return None


def _named_ports(pod: Obj) -> dict[str, int]:
    containers = pod["spec"].get("containers") or ()
    ports = [port for container in containers for port in container.get("ports") or ()]
    return {port["name"]: port["containerPort"] for port in ports if port.get("name")}


@dataclass(frozen=True, slots=True)
class Policies:
    """All policies of a cluster; ``spaces`` are the labels of its namespaces."""

    items: tuple[Obj, ...]
    spaces: Mapping[str, Mapping[str, str]]

    def allow(self, source: Party, target: Party, port: int, protocol: str = "TCP") -> bool:
        """Whether a connection may be opened."""
        if source.address == target.address:
            return True
        out = self._allows(EGRESS, source, target, target, port, protocol)
        return out and self._allows(INGRESS, target, source, target, port, protocol)

    def _allows(self, direction: str, held: Party, other: Party, target: Party, port: int, protocol: str) -> bool:
        """Whether the policies that hold for one end let the other one in (or be reached)."""
        if held.labels is None:
            return True
        found = [item for item in self.items if _selects(item, held, direction)]
        part, peers = ("egress", "to") if direction == EGRESS else ("ingress", "from")
        return not found or any(
            self._peer_fits(item, rule.get(peers), other) and _port_fits(rule.get("ports"), target, port, protocol)
            for item in found
            for rule in item["spec"].get(part) or ()
        )

    def _peer_fits(self, policy: Obj, peers: list[Obj] | None, other: Party) -> bool:
        return not peers or any(self._is(policy["metadata"]["namespace"], peer, other) for peer in peers)

    def _is(self, own: str, peer: Obj, other: Party) -> bool:
        if "ipBlock" in peer:
            return _in_block(peer["ipBlock"], other.address)
        if other.labels is None:
            return False
        if "namespaceSelector" in peer:
            if not from_struct(peer["namespaceSelector"]).matches(self.spaces.get(other.namespace, {})):
                return False
        elif other.namespace != own:
            return False
        return "podSelector" not in peer or from_struct(peer["podSelector"]).matches(other.labels)


def _selects(policy: Obj, held: Party, direction: str) -> bool:
    """Whether a policy holds for a pod in a direction."""
    spec = policy["spec"]
    types = spec.get("policyTypes") or [INGRESS, *([EGRESS] if spec.get("egress") else [])]
    if direction not in types or policy["metadata"]["namespace"] != held.namespace:
        return False
    return from_struct(spec.get("podSelector") or {}).matches(held.labels)


def _in_block(block: Obj, address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
        inside = found in ipaddress.ip_network(block["cidr"], strict=False)
        return inside and all(
            found not in ipaddress.ip_network(cut, strict=False) for cut in block.get("except") or ()
        )
    except ValueError:
        return False


def _port_fits(ports: list[Obj] | None, target: Party, port: int, protocol: str) -> bool:
    return not ports or any(_is_port(entry, target, port, protocol) for entry in ports)


def _is_port(entry: Obj, target: Party, port: int, protocol: str) -> bool:
    if entry.get("protocol", "TCP") != protocol:
        return False
    wanted = entry.get("port")
    if wanted is None:
        return True
    if isinstance(wanted, str) and not wanted.isdecimal():
        return target.ports.get(wanted) == port
    return bool(int(wanted) <= port <= int(entry.get("endPort") or wanted))


API_SERVER = Party("172.16.0.2")
"""Address to which the service of the API leads: no policy knows a service's own address."""
NAME_SERVER = Party("10.65.0.10", "kube-system", {"k8s-app": "kube-dns"}, {"dns": 53, "dns-tcp": 53})
"""Server that answers for names in a cluster without pods for that."""
POLICIES = "networkpolicies.networking.k8s.io"


class Gate:
    """Lets the traffic of one address through or drops it. ``tags``: those of its node in the cloud's firewall."""

    def __init__(self, client: Reader, fabric: Fabric, address: str, tags: frozenset[str] = frozenset()) -> None:
        self._client = client
        self._fabric = fabric
        self._address = address
        self._tags = tags

    async def opens(self, address: str, port: int, protocol: str = "TCP") -> bool:
        """Tell whether a connection to an address gets there."""
        if not self._fabric.firewall.passes(self._tags, address, port, protocol.lower()):
            return False
        policies = await self._policies()
        return not policies or await self._permit(policies, await self._party(address), port, protocol)

    async def admits(self, target: Party, port: int, protocol: str = "TCP") -> bool:
        """Tell whether policies permit a connection to somebody."""
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
