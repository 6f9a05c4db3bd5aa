"""Pools of nodes: what a fresh cluster's nodes are to be, and their first registration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from zlib import crc32

from kubesim.admission.pods import GKE_GPU, GPU_TAINT
from kubesim.client import Client
from kubesim.errors import ApiError, Obj
from kubesim.gpu.board import GPU
from kubesim.gpu.nodes import PRODUCTS, node, register, shared_clients
from kubesim.gpu.products import machine_of
from kubesim.kubelet import configuration
from kubesim.kubelet.images import present
from kubesim.kubelet.volumes import HOST
from kubesim.located import FileError
from kubesim.times import micro

MAX_NODES, MAX_GPUS = 1000, 16
JOINED_AFTER = timedelta(seconds=41)
"""The shortest time between the boot of a machine of the cloud and its joining."""
PROFILES = ("gke", "plain")
CLOUD = ("cloud.google.com/", "topology.", "node.kubernetes.io/", "beta.kubernetes.io/instance-type")
"""How the labels begin that only a cloud's nodes have."""
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
    images: tuple[str, ...] = ()
    """Images on their disks from the start, beside those that such nodes have in any case."""

    @property
    def machine(self) -> str:
        """The name that a cloud gives to the pool."""
        return machine_of(PRODUCTS[self.product], self.gpus).pool

    def nodes(self, first: int, now: datetime, seed: str = "") -> Iterator[Obj]:
        """Yield the node objects; ``first`` is how many nodes the cluster has already, ``seed`` sets it apart."""
        for number in range(self.count):
            made = node(first + number, self.gpus, now, PRODUCTS[self.product], seed)
            if self.profile == "plain":
                _make_plain(made, f"node-{first + number}")
            if self.name:
                _rename(made, f"{self.name}-{number}")
            made["metadata"]["labels"] |= self.labels
            if (clients := shared_clients(self.labels)) > 1:
                for amounts in (made["status"]["capacity"], made["status"]["allocatable"]):
                    amounts[GPU] = str(self.gpus * clients)
            if self.taints:
                made["spec"]["taints"] = list(self.taints)
            if self.profile == "gke" and any(taint["key"] == GPU for taint in self.taints):
                made["metadata"]["labels"][GKE_GPU] = "true"
            yield made


def practice(nodes: int, gpus: int, product: str) -> tuple[Pool, ...]:
    """Return the pools of a cluster in the cloud: one kept for pods that ask for GPUs, and one for all others."""
    kept = Pool(nodes, gpus, product, taints=(dict(GPU_TAINT),))
    return (kept, Pool(1, 0)) if nodes and gpus else (Pool(nodes, gpus, product),)


async def create(client: Client, pools: Iterable[Pool], now: datetime, seed: str = "") -> None:
    """Create the node objects of a fresh cluster; raises FileError for a pool of a file that the API refuses."""
    first = 0
    for pool in pools:
        try:
            await register(client, [*pool.nodes(first, now, seed)])
        except ApiError as error:
            if pool.path is None:
                raise
            raise FileError(pool.path, pool.line, f"{error.message}; mend it here") from error
        first += pool.count


def machines(pools: Iterable[Pool], now: datetime, seed: str = "", images: Sequence[str] = ()) -> Obj:
    """Return what kubelets find on fresh machines: when each has booted, its ``images``, and its configuration."""
    found: Obj = {}
    first = 0
    for pool in pools:
        for made in pool.nodes(first, now, seed):
            name = made["metadata"]["name"]
            found[f"images/{name}"] = [*present(pool.gpus), *pool.images, *images]
            if seed:
                found[f"boot/{name}"] = micro(now - JOINED_AFTER - timedelta(seconds=crc32(name.encode()) % 17))
            if pool.kubelet:
                found[f"disk/{name}"] = {HOST: [configuration.entry(pool.kubelet)]}
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
