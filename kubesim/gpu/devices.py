"""One GPU: its identity, what runs on it, what is wrong with it, and its readings at a moment."""

from __future__ import annotations

import hashlib
import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubesim.gpu.loads import Load, Range, swing, warm
from kubesim.gpu.mig import Instance
from kubesim.gpu.products import Product

COOLING_S = 45.0
"""Time constant of heating and cooling."""
NVLINK_GBPS = {"ampere": 25.0, "hopper": 26.562, "blackwell": 53.125}
"""Gigabytes per second of one link in one direction, as ``nvidia-smi nvlink`` prints it."""


@dataclass(frozen=True, slots=True)
class Task:
    """A process with a context on a device (or an instance of it). ``owner`` is ``namespace/pod/container``."""

    pid: int
    name: str
    owner: str
    load: Load
    since: datetime
    instance: int | None = None

    def elapsed(self, at: datetime) -> float:
        """Return its age in seconds."""
        return (at - self.since).total_seconds()


@dataclass(slots=True)
class Ecc:
    """Error counts: [since the driver was loaded, ever]."""

    corrected: list[int] = field(default_factory=lambda: [0, 0])
    uncorrected: list[int] = field(default_factory=lambda: [0, 0])


@dataclass(slots=True)
class Remap:
    """Rows of memory put out of use: counts of both causes; one waits for a reset, one failed."""

    corrected: int = 0
    uncorrected: int = 0
    pending: bool = False
    failed: bool = False


@dataclass(slots=True)
class Trouble:
    """What is wrong with a device now; all of it goes with a reset except what hardware keeps."""

    lost: bool = False
    stalled: bool = False
    reset_required: bool = False
    hot: bool = False
    power_brake: bool = False
    links_down: set[int] = field(default_factory=set)
    narrow: tuple[int, int] | None = None
    """PCIe generation and width, where the link has trained below what it can."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the sensors say: MHz, MiB, watts, degrees Celsius, bytes per second, shares of time."""

    sm_clock: int
    mem_clock: int
    temperature: int
    memory_temperature: int
    power: float
    util: int
    memory_util: int
    used: int
    free: int
    reserved: int
    sm_active: float
    tensor_active: float
    dram_active: float
    pcie_tx: float
    pcie_rx: float
    nvlink: float
    energy_mj: int
    state: str
    throttle: frozenset[str]
    """Reasons of ``clocks_event_reasons``: idle, sw_power_cap, hw_thermal_slowdown, hw_power_brake_slowdown."""


class Device:
    """A GPU of a node; its identity follows from the node's name."""

    def __init__(self, node: str, index: int, count: int, product: Product, booted: datetime) -> None:
        self.index = index
        self.minor = index
        self.product = product
        self.seed = f"{node}/{index}"
        self.uuid = f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, f'gpu/{self.seed}')}"
        self.serial = str(1650000000000 + int(hashlib.sha256(self.seed.encode()).hexdigest()[:8], 16) % 10**10)
        self.bus = product.bus[index % len(product.bus)]
        self.numa = product.numa_node(index, count)
        self.persistence = True
        self.mig_mode = False
        self.compute_mode = "Default"
        self.instances: tuple[Instance, ...] = ()
        self.tasks: dict[int, Task] = {}
        self.ecc = Ecc()
        self.remap = Remap()
        self.trouble = Trouble()
        self.replays = 0
        self.xid: tuple[int, datetime] | None = None
        self.announced = False
        """Whether the kernel log has named this device since the driver was loaded: it does before its first Xid."""
        self._anchor = booted
        self._heat = float(product.temperature["idle"])
        self._energy_mj = 0.0

    @property
    def pci_address(self) -> str:
        """The address as nvidia-smi prints it: 00000000:04:00.0."""
        domain, bus, device = self.bus.split(":")
        return f"0000{domain}:{bus.upper()}:{device.upper()}.0"

    @property
    def usable(self) -> bool:
        """Whether a new process could use it."""
        return not (self.trouble.lost or self.trouble.reset_required)

    def start(self, task: Task) -> None:
        """Let a process use the device."""
        self._settle(task.since)
        self.tasks[task.pid] = task

    def end(self, pid: int, at: datetime) -> None:
        """The process is gone, with its memory."""
        self._settle(at)
        self.tasks.pop(pid, None)

    def reset(self, at: datetime) -> None:
        """Reset the device: the volatile is zero again, pending remaps take effect, its processes are gone."""
        self._settle(at)
        self.tasks.clear()
        self.trouble = Trouble(narrow=self.trouble.narrow)
        self.ecc.corrected[0] = self.ecc.uncorrected[0] = self.replays = 0
        self.remap.pending = False
        self.xid = None
        self.announced = False

    def used(self, at: datetime, instance: int | None = None) -> int:
        """Return the MiB that processes hold, of the whole device or of one instance."""
        tasks = [task for task in self.tasks.values() if instance is None or task.instance == instance]
        return min(sum(self.held(task, at) for task in tasks), self.total(instance) - self.product.reserved // 2)

    def held(self, task: Task, at: datetime) -> int:
        """Return the MiB that one process holds."""
        return task.load.held(self.total(task.instance), task.elapsed(at))

    def total(self, instance: int | None = None) -> int:
        """Return the MiB of the device, or of one instance."""
        for item in self.instances:
            if item.id == instance:
                return item.profile.memory_mib
        return self.product.memory

    def read(self, at: datetime) -> Reading:
        """Return all readings of a moment that is not before the last change."""
        idle_sm, idle_mem = self.product.clocks["idle"]
        most_sm, most_mem = self.product.clocks["most"]
        busy = bool(self.tasks)
        power = self._power(at)
        throttle = self._throttle(power)
        slow = 0.45 if throttle & {"hw_thermal_slowdown", "hw_power_brake_slowdown"} else 1.0
        sm_clock = most_sm * slow * (0.93 if "sw_power_cap" in throttle else 1.0) if busy else idle_sm
        used = self.used(at)
        return Reading(
            sm_clock=round(sm_clock / 15) * 15,
            mem_clock=most_mem if busy or self.product.idle_state == "P0" else idle_mem,
            temperature=round(self._temperature(at)),
            memory_temperature=round(self._temperature(at) + 8) if self.product.temperature["memory"] else 0,
            power=round(power, 2),
            util=round(self._strongest("util", lambda load: load.util, at)),
            memory_util=round(self._strongest("mem", lambda load: load.memory_util, at)),
            used=used,
            free=max(self.product.memory - self.product.reserved - used, 0),
            reserved=self.product.reserved,
            sm_active=self._strongest("sm", lambda load: load.sm, at) * slow,
            tensor_active=self._strongest("tensor", lambda load: load.tensor, at) * slow,
            dram_active=self._strongest("dram", lambda load: load.dram, at) * slow,
            pcie_tx=self._strongest("tx", lambda load: load.pcie, at) * 1e9,
            pcie_rx=self._strongest("rx", lambda load: load.pcie, at) * 1.6e9,
            nvlink=self._nvlink(at) * 1e9,
            energy_mj=int(self._energy(at)),
            state="P0" if busy else self.product.idle_state,
            throttle=throttle,
        )

    def _strongest(self, key: str, pick: Callable[[Load], Range], at: datetime) -> float:
        """Return the greatest of what the processes do: a shared device is as busy as its busiest user."""
        values = (
            swing(pick(t.load), t.elapsed(at), t.load.period, f"{self.seed}/{t.owner}/{key}")
            * warm(t.load, t.elapsed(at))
            for t in self.tasks.values()
        )
        return max(values, default=0.0)

    def _nvlink(self, at: datetime) -> float:
        links = self.product.nvlinks
        if not links or len(self.trouble.links_down) == links:
            return 0.0
        return (
            self._strongest("nvlink", lambda load: load.nvlink, at) * (links - len(self.trouble.links_down)) / links
        )

    def _power(self, at: datetime) -> float:
        idle, limit = self.product.power["idle"], self.product.power["limit"]
        share = min(self._strongest("power", lambda load: load.power, at), 1.0)
        flicker = swing((-0.006, 0.006), at.timestamp() % 86400, 4, self.seed)
        brake = 0.5 if self.trouble.hot or self.trouble.power_brake else 1.0
        return max(idle + (limit - idle) * share * brake + limit * flicker * 0.3, idle * 0.95)

    def _mean_power(self) -> float:
        idle, limit = self.product.power["idle"], self.product.power["limit"]
        share = max((task.load.mean(task.load.power) for task in self.tasks.values()), default=0.0)
        return idle + (limit - idle) * min(share, 1.0) * (
            0.5 if self.trouble.hot or self.trouble.power_brake else 1.0
        )

    def _throttle(self, power: float) -> frozenset[str]:
        reasons = {
            "hw_thermal_slowdown": self.trouble.hot,
            "hw_power_brake_slowdown": self.trouble.power_brake,
            "sw_power_cap": power > self.product.power["limit"] * 0.985,
            "gpu_idle": not self.tasks,
        }
        return frozenset(name for name, holds in reasons.items() if holds)

    def _target(self) -> float:
        sensors = self.product.temperature
        if self.trouble.hot:
            return float(sensors["slowdown"]) + 1
        idle, limit = self.product.power["idle"], self.product.power["limit"]
        share = (self._mean_power() - idle) / (limit - idle)
        return float(sensors["idle"] + (sensors["busy"] - sensors["idle"]) * share)

    def _temperature(self, at: datetime) -> float:
        target = self._target()
        return target + (self._heat - target) * math.exp(-max((at - self._anchor).total_seconds(), 0) / COOLING_S)

    def _energy(self, at: datetime) -> float:
        return self._energy_mj + self._mean_power() * max((at - self._anchor).total_seconds(), 0) * 1000

    def _settle(self, at: datetime) -> None:
        """Carry heat and energy up to ``at``, before what drives them changes."""
        at = max(at, self._anchor)
        self._heat, self._energy_mj, self._anchor = self._temperature(at), self._energy(at), at

    def suffer(self, at: datetime, **changes: object) -> None:
        """Set what is wrong with it (fields of ``Trouble``), from ``at`` on."""
        self._settle(at)
        for name, value in changes.items():
            if name not in Trouble.__dataclass_fields__:
                raise TypeError(f"Trouble has no field {name}")
            setattr(self.trouble, name, value)


def uptime(since: datetime, at: datetime) -> timedelta:
    """Return how long ago ``since`` was, never less than nothing."""
    return max(at - since, timedelta())
