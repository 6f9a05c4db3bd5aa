"""NCCL: how the ranks of a communicator reach each other, how fast that is, and what NCCL_DEBUG says of it.

A program whose ranks have met makes one ``Communicator`` of what each knows of itself (``Member``), and asks it::

    comm = Communicator(members)
    comm.seconds("all_reduce", size)          # of one call with so many bytes on each rank
    comm.lines(rank, "bootstrap"), comm.lines(rank, "init"), comm.lines(rank, "destroy")   # of NCCL_DEBUG

Ranks of one host use NVLink, PCIe or shared memory, as the devices' topology and the rank's environment say; ranks of
different hosts (pods are hosts to NCCL) the interface that NCCL_SOCKET_IFNAME chooses. There is no InfiniBand.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubesim import data
from kubesim.gpu.collectives import interface
from kubesim.gpu.devices import NVLINK_GBPS, Device
from kubesim.gpu.products import driver

_table = data.beside(__file__, "nccl.yaml")
NVLINK_SHARE, PCIE_SHARE, SOCKET_SHARE, COPY_SHARE = 0.77, 0.36, 0.55, 0.42
"""Of the peak, that a large collective has: of all NVLinks, of a PCIe slot, of a network interface, of memory."""
NVLS_GAIN, NVLS_FAMILIES = 1.3, ("hopper", "blackwell")
"""Switches of these families add for the ranks: an all-reduce of four or more gains."""
PCIE_GBPS = {3: 15.75, 4: 31.5, 5: 63.0}
LAUNCH_S, STEP_S, NETWORK_S = 9.6e-6, 1.7e-6, 67e-6
"""Of one call: the launch, a step to a rank of the host, a step to another host."""
DATATYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16")
WARNS, TELLS = ("WARN", "INFO", "TRACE"), ("INFO", "TRACE")
USUAL = frozenset({"INIT", "BOOTSTRAP", "ENV"})
"""Told by NCCL_DEBUG=INFO where NCCL_DEBUG_SUBSYS says nothing."""
ON = ("1", "true", "yes")


@dataclass(frozen=True, slots=True)
class Member:
    """One rank: where it runs, with which device, and its environment. NCCL tells hosts by their names."""

    host: str
    pid: int
    address: str
    ordinal: int
    device: Device
    env: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    speed: float = 1.0
    """The share of the device that it has."""
    port: int = 0

    @property
    def interface(self) -> str:
        """The network interface that it takes; empty where none fits."""
        return interface(self.env.get("NCCL_SOCKET_IFNAME", ""))

    @property
    def reached_at(self) -> str:
        """The address that it tells the others."""
        return "127.0.0.1" if self.interface == "lo" else self.address

    def tells(self, subsystem: str) -> bool:
        """Return whether NCCL_DEBUG and NCCL_DEBUG_SUBSYS want lines of a subsystem."""
        if self.env.get("NCCL_DEBUG", "").upper() not in TELLS:
            return False
        asked = self.env.get("NCCL_DEBUG_SUBSYS", "").upper()
        names = set(asked.removeprefix("^").split(",")) if asked else USUAL
        return (subsystem in names or "ALL" in names) != asked.startswith("^")

    def head(self, thread: int = 0) -> str:
        """Return what every line of it begins with."""
        return f"{self.host}:{self.pid}:{thread or self.pid} [{self.ordinal}] NCCL INFO "


class Communicator:
    """The ranks that compute together, in their order."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.members = list(members)
        hosts = dict.fromkeys(each.host for each in members)
        self.hosts = [[rank for rank, each in enumerate(members) if each.host == host] for host in hosts]
        digest = zlib.crc32("/".join(f"{each.host}:{each.pid}" for each in members).encode())
        self.id = f"0x{digest:08x}{digest ^ 0x5BD1E995:08x}"

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.members)

    def transport(self, one: Member, other: Member) -> str:
        """Return how two ranks of one host reach each other, in NCCL's words."""
        linked = min(_links(one.device), _links(other.device)) > 0
        if linked and not _off(one, "P2P") and not _off(other, "P2P"):
            return "P2P/CUMEM" if one.pid != other.pid else "P2P/direct pointer"
        return "NET/Socket/0" if _off(one, "SHM") else "SHM/direct/direct"

    def local_speed(self) -> float:
        """Return the bytes per second that the slowest host moves between its own ranks."""
        return min((self._host_speed(host) for host in self.hosts if len(host) > 1), default=float("inf"))

    def _host_speed(self, host: list[int]) -> float:
        members = [self.members[rank] for rank in host]
        share = min(each.speed for each in members)
        first, kinds = members[0], {self.transport(members[0], each) for each in members[1:]}
        product = first.device.product
        if any(kind.startswith("NET") for kind in kinds):
            return self._wire(first) * share
        if any(kind.startswith("SHM") for kind in kinds):
            return float(PCIE_GBPS[product.pci["generation"]] * PCIE_SHARE * 1e9 * share)
        links = min(_links(each.device) for each in members)
        return links * NVLINK_GBPS[product.family] * NVLINK_SHARE * 1e9 * share

    def _wire(self, member: Member) -> float:
        """Return the bytes per second of a host's network interface, as NCCL's sockets use it."""
        gbps = _table()["gbps"].get(member.device.product.machine.name, 100)
        return float(gbps / 8 * SOCKET_SHARE * 1e9)

    def speed(self, name: str) -> float:
        """Return the bus bandwidth of a large collective, in bytes per second."""
        if self.size == 1:
            return float(self.members[0].device.product.bandwidth * COPY_SHARE * 1e9 * self.members[0].speed)
        found = self.local_speed()
        if len(self.hosts) == 1:
            return found * (NVLS_GAIN if name == "all_reduce" and self.uses_nvls else 1.0)
        wire = min(self._wire(self.members[host[0]]) for host in self.hosts)
        if name == "alltoall":  # every rank sends to every rank elsewhere through its host's one interface
            most = max(map(len, self.hosts))
            wire *= (self.size - 1) / max(self.size - most, 1) / most
        return min(found, wire)

    @property
    def uses_nvls(self) -> bool:
        """Return whether the switches add for the ranks."""
        whole = len(self.hosts) == 1 and self.size >= 4
        family = self.members[0].device.product.family in NVLS_FAMILIES
        linked = all(self.transport(self.members[0], each).startswith("P2P") for each in self.members[1:])
        return whole and family and linked and self.members[0].env.get("NCCL_NVLS_ENABLE", "2") != "0"

    def seconds(self, name: str, size: int, noise: float = 0.0) -> float:
        """Return how long one call takes that moves so many bytes for each rank (its size times the bus factor)."""
        latency = LAUNCH_S + STEP_S * math.pow(self.size - 1, 0.9) + NETWORK_S * math.sqrt(len(self.hosts) - 1)
        flow = size / self.speed(name)
        return (latency + flow + 0.7 * math.sqrt(latency * flow)) * (1 + 0.03 * noise)

    # What NCCL_DEBUG says.

    def lines(self, rank: int, when: str, **more: object) -> list[str]:
        """Return the lines of a rank at a point of its life: ``bootstrap``, ``init``, ``coll`` or ``destroy``."""
        member = self.members[rank]
        parts = {"bootstrap": self._bootstrap, "init": self._init}
        found = [*parts[when](rank, member)] if when in parts else [(*_table()["lines"][when], {})]
        thread = member.pid + 11 + member.ordinal if when == "init" else member.pid
        values = {**self._values(rank), **more}
        return [
            member.head(thread) + text.format(**{**values, **own})
            for subsystem, text, own in found
            if member.tells(subsystem)
        ]

    def _bootstrap(self, rank: int, member: Member) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for name in ("NCCL_SOCKET_IFNAME", "NCCL_DEBUG_SUBSYS"):
            if member.env.get(name):
                yield "ENV", f"{name} set by environment to {_plain(member.env[name])}", {}
        for subsystem, text in _table()["lines"]["bootstrap"]:
            if rank == 0 or "NCCL version" not in text:
                yield subsystem, text, {}

    def _init(self, rank: int, member: Member) -> Iterator[tuple[str, str, dict[str, Any]]]:
        table = _table()["lines"]
        yield from ((*row, {}) for row in table["net"])
        if _off(member, "IB"):
            yield "ENV", f"NCCL_IB_DISABLE set by environment to {_plain(member.env['NCCL_IB_DISABLE'])}.", {}
        else:
            yield (*table["ib"], {})
        yield from ((*row, {}) for row in table["init"])
        for name in ("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_ALGO", "NCCL_PROTO", "NCCL_NVLS_ENABLE"):
            if member.env.get(name):
                yield "ENV", f"{name} set by environment to {_plain(member.env[name])}", {}
        yield from ((*row, {}) for row in table["graph"])
        channels = self.channels
        if rank == 0:
            yield from ((*table["ring"], {"n": number}) for number in range(channels))
        yield from ((*row, {}) for row in table["trees"])
        yield from self._connections(rank, member, channels)
        if self.uses_nvls:
            yield (*table["nvls"], {})
        yield from ((*row, {}) for row in table["done"])

    def _connections(self, rank: int, member: Member, channels: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
        if self.size == 1:
            return
        table, before, after = _table()["lines"], (rank - 1) % self.size, (rank + 1) % self.size
        for kind, other in (("receive", before), ("send", after)):
            peer = self.members[other]
            transport = self.transport(member, peer) if peer.host == member.host else ""
            own = {"other": other, "other_device": peer.ordinal, "transport": transport}
            kind = kind if not transport or transport.startswith("NET") else "local" if kind == "send" else ""
            for number in range(channels if kind else 0):
                yield (*table[kind], {**own, "n": number})

    @property
    def channels(self) -> int:
        """The number of channels of a collective."""
        if len(self.hosts) > 1 or self.size == 1:
            return 2 if self.size > 1 else 32
        return 24 if self.local_speed() > 1e11 else 2

    def _values(self, rank: int) -> dict[str, Any]:
        member = self.members[rank]
        host = next(host for host in self.hosts if rank in host)
        seed = zlib.crc32(f"{self.id}/{rank}".encode())
        speed = min(self.speed("all_gather") / 1e9, 9999.0)
        bus = member.device.bus.partition(":")[2].replace(":", "").lstrip("0")
        major, minor = driver().cuda.split(".")
        numa = member.device.product.numa[member.device.numa]
        links = min(_links(each.device) for each in self.members)
        return {
            "rank": rank, "ranks": self.size, "device": member.ordinal, "bus": f"{bus}0",
            "comm": f"0x55{seed:08x}{seed % 256:02x}", "id": self.id, "interface": member.interface,
            "address": member.reached_at, "driver": int(major) * 1000 + int(minor) * 10, "version": member.version,
            "noise": f"{seed % 90000 + 10000}", "affinity": numa, "nodes": len(self.hosts), "local": host.index(rank),
            "local_ranks": len(host), "channels": self.channels,
            "order": " ".join(f"{number:3d}" for number in range(self.size)),
            "trees": " ".join(f"[{number}] {self._tree(rank)}" for number in range(self.channels)),
            "chunk": 524288 if len(self.hosts) == 1 and links else 131072, "threshold": 8 * self.size,
            "nvls": 16 if self.uses_nvls else 0, "p2p": 32 if links and len(self.hosts) == 1 else 2,
            "per_peer": 32 if links and len(self.hosts) == 1 else 2, "speed": speed, "total": speed,
            "kind": "NVL" if links else "PHB", "net_kind": "PIX" if len(self.hosts) == 1 else "PHB",
        }  # fmt: skip

    def _tree(self, rank: int) -> str:
        """Return a rank's neighbours in the trees: a chain in each host, whose first ranks are another."""
        place = next(index for index, host in enumerate(self.hosts) if rank in host)
        host, firsts = self.hosts[place], [each[0] for each in self.hosts]
        at = host.index(rank)
        chains = [(host, at), *([] if at else [(firsts, place)])]
        downs = [chain[index + 1] if index + 1 < len(chain) else -1 for chain, index in chains]
        up = next((chain[index - 1] for chain, index in chains if index), -1)
        return "/".join(str(each) for each in [*downs, -1, -1][:3]) + f"->{rank}->{up}"


def _links(device: Device) -> int:
    """Return how many NVLinks of a device work."""
    return device.product.nvlinks - len(device.trouble.links_down)


def _off(member: Member, name: str) -> bool:
    return member.env.get(f"NCCL_{name}_DISABLE", "0").lower() in ON


def _plain(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
