"""What the pods of one node share: the node itself, its disk, the network, and the way to its kubelet."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.kubelet import hostfiles
from kubesim.kubelet.agents import Agents
from kubesim.kubelet.duties import Duties, Monitoring
from kubesim.kubelet.gpus import NodeGpus
from kubesim.kubelet.node_images import Downloads, NodeImages
from kubesim.kubelet.usage import Ledger
from kubesim.kubelet.volumes import NodeDisk
from kubesim.network.fabric import Fabric, HttpServer
from kubesim.recorder import Recorder
from kubesim.shell import rootfs
from kubesim.shell.files import Directory, File
from kubesim.shell.hostside import HostProcess


class Watch:
    """Hears what happens to a node's disk and memory; this one does nothing about it."""

    config: Mapping[str, Any] = MappingProxyType({})
    """Return the configuration of the node's kubelet beside the defaults."""
    outside: Mapping[str, int] = MappingProxyType({})
    """What of each resource is used by what is no pod, beside the node's own system."""

    def use(self, resource: str, amount: int) -> None:
        """Let so much of a resource be used by what is no pod, beside the node's own system."""

    def restart(self) -> str:
        """Start the kubelet anew; returns why it does not start, or nothing."""
        return ""

    def written(self) -> None:
        """Note that something was written to the disk."""

    def started(self, memory_mib: float) -> None:
        """Note that a program has started that will hold so much memory."""

    def touch(self) -> None:
        """Look at the node soon, and a while longer."""

    def grown(self) -> None:
        """Note that a process holds much more memory than before."""


if TYPE_CHECKING:
    from kubesim.kubelet.machines import Machines

HOST_FILES = {
    "hosts": "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n169.254.169.254\tmetadata\n",
    "resolv.conf": "nameserver 169.254.169.254\n",
}
"""What lies in a node's own /etc beside the files of its distribution."""


def host_tree() -> Directory:
    """Return what lies on the disk of a fresh node."""
    root = rootfs.files("node", "ubuntu-22.04").root
    etc = root.get("etc")
    if isinstance(etc, Directory):
        for name, text in HOST_FILES.items():
            etc.put(name, File(data=text.encode()))
    return root


@dataclass
class Node:
    """What a kubelet knows of its own node."""

    name: str
    uid: str
    architecture: str
    ip: str
    cidr: str
    recorder: Recorder
    agents: Agents
    images: NodeImages
    downloads: Downloads
    taken: dict[str, str] = field(default_factory=dict)
    """Pod uid -> address."""
    gpus: NodeGpus = field(default_factory=lambda: NodeGpus(""))
    disk: NodeDisk = field(default_factory=lambda: NodeDisk(host_tree))
    capacity: dict[str, str] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    """By which the cloud's firewall knows it."""
    foreign: bool = False
    """Whether it has joined a cluster that is not kubesim's."""
    port: int = 0
    """Where its kubelet listens."""
    endpoint: HttpServer = field(default_factory=HttpServer)
    """What answers there, once the kubelet runs."""
    watch: Watch = field(default_factory=Watch)
    """Hears of what may leave it short of something."""
    processes: Callable[[], list[HostProcess]] = list
    """Returns everything that runs on it."""
    logs: tuple[Directory, Directory] = field(default_factory=lambda: (Directory(), Directory()))
    """Those of its pods, as files, by pod and by container."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """What its kubelet is set to."""
    info: dict[str, str] = field(default_factory=dict)
    """The node's own nodeInfo."""
    cloud: str = ""
    """The name of its provider, where it is a machine of a cloud."""
    ledger: Ledger = field(default_factory=lambda: Ledger(tuple, {}, lambda: 0.0))
    """What it is used for, from then on."""

    def __post_init__(self) -> None:
        self.disk.fresh = lambda: hostfiles.tree(self, host_tree())

    def address(self, uid: str, wanted: str = "") -> str:
        """Return the address of a pod: the one it has, or the first free one of the node's range."""
        if uid not in self.taken:
            used = set(self.taken.values())
            self.taken[uid] = wanted or next(address for address in self._range() if address not in used)
        return self.taken[uid]

    def _range(self) -> Iterator[str]:
        """Yield the addresses of the node's pods: not the network's own, its gateway's and the last one."""
        network = ipaddress.ip_network(self.cidr)
        first, made = int(network.network_address), type(network.network_address)
        return (str(made(first + number)) for number in range(2, network.num_addresses - 1))


@dataclass(frozen=True, slots=True)
class Host:
    """A node as one of its pods sees it. ``wake`` makes the kubelet look at the pod again.

    ``written`` is called when one of its processes has changed a file.
    """

    client: Client
    clock: Clock
    node: Node
    fabric: Fabric
    wake: Callable[[], None]
    telemetry: Monitoring
    machines: Machines
    duties: Duties
    written: Callable[[], None]
