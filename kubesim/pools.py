"""Pools of nodes: what a fresh cluster's nodes are to be, and their first registration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from kubesim.client import Client
from kubesim.errors import ApiError, Obj
from kubesim.gpu.board import GPU
from kubesim.gpu.nodes import PRODUCTS, node, register
from kubesim.kubelet import configuration
from kubesim.kubelet.volumes import HOST
from kubesim.located import FileError

MAX_NODES, MAX_GPUS = 1000, 16
PROFILES = ("gke", "plain")
CLOUD = ("cloud.google.com/", "topology.", "node.kubernetes.io/", "beta.kubernetes.io/instance-type")
"""How the labels begin that only a cloud's nodes have."""
GKE_GPU = "cloud.google.com/gke-gpu"
"""The label of nodes that GKE keeps for pods with GPUs: those pods then tolerate the taint without saying so."""
PLAIN_KERNEL = "5.15.0-119-generic"


@dataclass(frozen=True, slots=True)
class Pool:
    """Some nodes of one kind; ``path`` and ``line`` are where a file asks for them."""

    count: int = 3
    gpus: int = 8
    product: str = "H100"
    profile: str = "gke"
    name: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Obj, ...] = ()
    path: Path | None = None
    line: int = 0
    kubelet: Obj = field(default_factory=dict)
    """What the configuration of their kubelets says beside the defaults."""

    def nodes(self, first: int, now: datetime) -> Iterator[Obj]:
        """Yield the node objects; ``first`` is how many nodes the cluster has already."""
        for number in range(self.count):
            made = node(first + number, self.gpus, now, PRODUCTS[self.product])
            if self.profile == "plain":
                _make_plain(made, f"node-{first + number}")
            if self.name:
                _rename(made, f"{self.name}-{number}")
            made["metadata"]["labels"] |= self.labels
            if self.taints:
                made["spec"]["taints"] = list(self.taints)
            if self.profile == "gke" and any(taint["key"] == GPU for taint in self.taints):
                made["metadata"]["labels"][GKE_GPU] = "true"
            yield made


async def create(client: Client, pools: Iterable[Pool], now: datetime) -> None:
    """Create the node objects of a fresh cluster; raises FileError for a pool of a file that the API refuses."""
    first = 0
    for pool in pools:
        try:
            await register(client, [*pool.nodes(first, now)])
        except ApiError as error:
            if pool.path is None:
                raise
            raise FileError(pool.path, pool.line, f"{error.message}; mend it here") from error
        first += pool.count


def disks(pools: Iterable[Pool], now: datetime) -> Obj:
    """Return what lies on the disks of nodes whose kubelets are configured, as their kubelets take it up."""
    found: Obj = {}
    first = 0
    for pool in pools:
        for made in pool.nodes(first, now) if pool.kubelet else ():
            found[f"disk/{made['metadata']['name']}"] = {HOST: [configuration.entry(pool.kubelet)]}
        first += pool.count
    return found


def _make_plain(made: Obj, name: str) -> None:
    """Make a cloud's node one of no cloud."""
    labels = made["metadata"]["labels"]
    made["metadata"]["labels"] = {label: text for label, text in labels.items() if not label.startswith(CLOUD)}
    made["metadata"]["labels"].pop("nvidia.com/gpu.machine", None)
    del made["spec"]["providerID"]
    made["status"]["nodeInfo"]["kernelVersion"] = PLAIN_KERNEL
    _rename(made, name)


def _rename(made: Obj, name: str) -> None:
    """Give a node another name, wherever it stands."""
    old = made["metadata"]["name"]
    made["metadata"]["name"] = made["metadata"]["labels"]["kubernetes.io/hostname"] = name
    for address in made["status"]["addresses"]:
        address["address"] = name if address["address"] == old else address["address"]
    if "providerID" in made["spec"]:
        made["spec"]["providerID"] = made["spec"]["providerID"].replace(old, name)
