"""The Node objects that join another cluster, and how they are told to its API server: by the nodes themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from zlib import crc32

from kubesim.client import Client, Reader
from kubesim.errors import ApiError, Obj, tolerating
from kubesim.nodes.account import TAINT, Group
from kubesim.pools import Pool, machines

FOREIGN = "the cluster has a node {} that is not ours; choose other names with --name"
LEAVING = "the node {} is being removed; try again in a moment"
PROVIDER = "kubesim://"
"""No cloud's: a cloud's controllers look after their own machines and must find none of ours among them."""


class Taken(Exception):
    """A node of that name is somebody else's."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The nodes that are to join; the API server reaches their kubelets at ``address``."""

    group: Group
    pools: tuple[Pool, ...]
    address: str
    tainted: bool = True
    images: tuple[str, ...] = ()
    """Images that are on every node from the start, beside the usual ones."""

    def objects(self, ports: list[int], owner: Obj | None, now: datetime) -> Iterator[Obj]:
        """Yield the Node objects; they go with ``owner``, a cluster-scoped object, when that is deleted."""
        for made, port in zip(self._nodes(now), ports, strict=True):
            yield self._adapted(made, port, owner)

    def machines(self, now: datetime) -> Obj:
        """Return what their kubelets find on their disks."""
        return machines(self.pools, now, images=self.images)

    def _nodes(self, now: datetime) -> Iterator[Obj]:
        firsts = accumulate((pool.count for pool in self.pools), initial=0)
        return (made for pool, first in zip(self.pools, firsts, strict=False) for made in pool.nodes(first, now))

    def names(self, now: datetime) -> list[str]:
        """Return the names of the nodes."""
        return [made["metadata"]["name"] for made in self._nodes(now)]

    def _adapted(self, made: Obj, port: int, owner: Obj | None) -> Obj:
        meta, spec, name = made["metadata"], made["spec"], made["metadata"]["name"]
        meta["labels"] = {**meta["labels"], **self.group.labels}
        if owner is not None:
            meta["ownerReferences"] = [_reference(owner)]
        spec["providerID"] = PROVIDER + name
        for given_by_the_cluster in ("podCIDR", "podCIDRs"):
            spec.pop(given_by_the_cluster, None)
        taints = [*spec.get("taints", ()), *([TAINT] if self.tainted else [])]
        if taints:
            spec["taints"] = taints
        made["status"]["addresses"] = [
            {"type": "InternalIP", "address": self.address},
            {"type": "Hostname", "address": name},
        ]
        made["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] = port
        return made


def cidr(group: Group, index: int) -> str:
    """Return the addresses of the pods of a group's ``index``-th node, where the cluster gives it none.

    They are those of no practice cluster's nodes (10.64.0.0/10), and hardly those of another group.
    """
    number = (crc32(group.name.encode()) + index) % (64 * 256)
    return f"10.{192 + number // 256}.{number % 256}.0/24"


async def check_free(client: Reader, name: str, group: Group) -> None:
    """Raise ``Taken`` where the cluster has a node of a name: before anything is done in that name."""
    with tolerating(404):
        present = await client.get("nodes", name)
        ours = (present["metadata"].get("labels") or {}).items() >= group.labels.items()
        raise Taken((LEAVING if ours else FOREIGN).format(name))


async def register(client: Client, node: Obj, group: Group) -> None:
    """Register a node with its own rights. Raises ``Taken``, and ``ApiError``."""
    name = node["metadata"]["name"]
    try:
        await client.create("nodes", node)
    except ApiError as error:
        if error.code != 409:
            raise
        await check_free(client, name, group)
        raise Taken(LEAVING.format(name)) from error
    await client.patch("nodes", name, "", {"status": node["status"]}, subresource="status")


def _reference(owner: Obj) -> Obj:
    meta = owner["metadata"]
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
