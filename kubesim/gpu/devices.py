"""One GPU: its identity, what runs on it, what is wrong with it, and how both have changed."""

from __future__ import annotations

import hashlib
import math
import uuid
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any

from kubesim.gpu.products import Load, Product

COOLING_S = 45.0
"""Time constant of heating and cooling."""
MAX_STATES = 512
UNAVAILABLE = 46
"""CUDA's error where a device takes no new process (cudaErrorDevicesUnavailable)."""
NVLINK_GBPS = {"ampere": 25.0, "hopper": 26.562, "blackwell": 53.125}
"""Gigabytes per second of one link in one direction, as ``nvidia-smi nvlink`` prints it."""


@dataclass(frozen=True, slots=True)
class Task:
    """A process with a context on a device. ``owner`` is ``namespace/pod/container``."""

    pid: int
    name: str
    owner: str
    load: Load
    since: datetime

    def elapsed(self, at: datetime) -> float:
        """Return its age in seconds."""
        return (at - self.since).total_seconds()


@dataclass(frozen=True, slots=True)
class Ecc:
    """Error counts: (since the driver was loaded, ever)."""

    corrected: tuple[int, int] = (0, 0)
    uncorrected: tuple[int, int] = (0, 0)

    def more(self, uncorrected: int) -> Ecc:
        """Return the counts after some uncorrectable errors."""
        volatile, aggregate = self.uncorrected
        return replace(self, uncorrected=(volatile + uncorrected, aggregate + uncorrected))

    def reset(self) -> Ecc:
        """Return the counts after a reset."""
        return Ecc((0, self.corrected[1]), (0, self.uncorrected[1]))


@dataclass(frozen=True, slots=True)
class Remap:
    """Rows of memory put out of use: counts of both causes; one waits for a reset, one failed."""

    corrected: int = 0
    uncorrected: int = 0
    pending: bool = False
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with a device now; a reset ends all of it but a narrow link."""

    lost: bool = False
    stalled: bool = False
    reset_required: bool = False
    hot: bool = False
    power_brake: bool = False
    links_down: frozenset[int] = frozenset()
    refuses: int = 0
    """The CUDA error with which a new process fails that wants to use it; 0: none of its own."""
    narrow: tuple[int, int] | None = None
    """PCIe generation and width, where the link has trained below what it can."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What an administrator has set; watts and MHz, pairs are (lowest, highest). A reset ends all but persistence."""

    persistence: bool = True
    power_limit: float = 0.0
    """0 for the product's own."""

    @classmethod
    def load(cls, saved: dict[str, Any]) -> Settings:
        """Return what ``asdict`` has told, after a journey through JSON; settings of older versions are gone."""
        known = {field.name for field in fields(cls)}
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in saved.items() if k in known}
        return cls(**values)


@dataclass(frozen=True, slots=True)
class State:
    """What a device is like from ``since`` on; ``heat`` (degrees) and ``energy_mj`` are those of that moment."""

    since: datetime
    heat: float
    energy_mj: float = 0.0
    tasks: tuple[Task, ...] = ()
    given: tuple[str, ...] = ()
    """The owners of it."""
    settings: Settings = Settings()
    trouble: Trouble = Trouble()
    ecc: Ecc = Ecc()
    remap: Remap = Remap()
    replays: int = 0
    xid: int = 0
    """The last Xid event; 0 for none since the driver was loaded."""


class Device:
    """A GPU of a node; its identity follows from a seed. It remembers what it was like before."""

    def __init__(self, seed: str, index: int, count: int, product: Product, booted: datetime) -> None:
        self.index = index
        self.minor = index
        self.product = product
        self.seed = f"{seed}/{index}"
        digest = hashlib.sha256(f"gpu/{self.seed}".encode()).digest()
        self.uuid = f"GPU-{uuid.UUID(bytes=digest[:16], version=4)}"
        self.serial = str(1650000000000 + int.from_bytes(digest[16:20], "big") % 10**10)
        self.bus = product.bus[index % len(product.bus)]
        domain, bus, number = self.bus.split(":")
        self.pci_address = f"0000{domain}:{bus.upper()}:{number.upper()}.0"
        """The address as nvidia-smi prints it: 00000000:04:00.0."""
        self.numa = product.numa_node(index, count)
        self.announced = False
        """Whether the kernel log has named this device since the driver was loaded: it does before its first Xid."""
        self._states = [State(booted, float(product.temperature["idle"]))]

    @property
    def state(self) -> State:
        """What it is like now."""
        return self._states[-1]

    def states(self, after: datetime, until: datetime) -> list[State]:
        """Return every state it had in a span of time."""
        first = max(bisect_right(self._states, after, key=lambda state: state.since) - 1, 0)
        return self._states[first : bisect_right(self._states, until, key=lambda state: state.since)]

    def state_at(self, at: datetime) -> State:
        """Return the state it was in at a moment (its first for one before that)."""
        if at >= self._states[-1].since:
            return self._states[-1]
        return self._states[max(bisect_right(self._states, at, key=lambda state: state.since) - 1, 0)]

    @property
    def tasks(self) -> dict[int, Task]:
        """The processes on it, by number."""
        return {task.pid: task for task in self.state.tasks}

    @property
    def trouble(self) -> Trouble:
        """What is wrong with it now."""
        return self.state.trouble

    @property
    def settings(self) -> Settings:
        """What was set of it."""
        return self.state.settings

    @property
    def power_limit(self) -> float:
        """The watts that it may draw."""
        return limit(self.product, self.settings)

    @property
    def usable(self) -> bool:
        """Whether a new process could use it."""
        return not (self.trouble.lost or self.trouble.reset_required)

    @property
    def context_error(self) -> int:
        """CUDA's error for a process that makes a context now; 0: none."""
        return self.trouble.refuses or (UNAVAILABLE if self.trouble.reset_required else 0)

    def change(self, at: datetime, **fields: object) -> None:
        """Enter a new state: ``fields`` of ``State`` differ from ``at`` on, heat and energy are carried on."""
        at = max(at, self.state.since)
        heat, energy = temperature(self.product, self.state, at), energy_mj(self.product, self.state, at)
        changed = replace(self.state, since=at, heat=heat, energy_mj=energy, **fields)  # type: ignore[arg-type]
        if at == self.state.since:
            self._states[-1] = changed
        else:
            self._states.append(changed)
            del self._states[:-MAX_STATES]

    def start(self, task: Task) -> None:
        """Let a process use the device."""
        others = tuple(other for other in self.state.tasks if other.pid != task.pid)
        self.change(task.since, tasks=(*others, task))

    def turn(self, pid: int, load: Load, at: datetime) -> None:
        """Let a process do something else from now on."""
        changed = tuple(replace(t, load=load) if t.pid == pid else t for t in self.state.tasks)
        self.change(at, tasks=changed)

    def end(self, pid: int, at: datetime) -> None:
        """The process is gone, with its memory."""
        self.change(at, tasks=tuple(task for task in self.state.tasks if task.pid != pid))

    def suffer(self, at: datetime, **changes: object) -> None:
        """Set what is wrong with it (fields of ``Trouble``), from ``at`` on."""
        self.change(at, trouble=replace(self.trouble, **changes))  # type: ignore[arg-type]

    def set(self, at: datetime, **changes: object) -> None:
        """Set something of it (fields of ``Settings``), from ``at`` on."""
        self.change(at, settings=replace(self.settings, **changes))  # type: ignore[arg-type]

    def reset(self, at: datetime) -> None:
        """Reset the device: the volatile is zero again, its processes are gone."""
        self.announced = False
        self.change(
            at,
            tasks=(),
            settings=Settings(persistence=self.settings.persistence),
            trouble=Trouble(narrow=self.trouble.narrow),
            ecc=self.state.ecc.reset(),
            remap=replace(self.state.remap, pending=False),
            replays=0,
            xid=0,
        )

    def dump(self) -> dict[str, Any]:
        """Return what is wrong with it, what it counts of that, and what was set: what ``restore`` takes."""
        state, links = self.state, sorted(self.trouble.links_down)
        trouble = {**asdict(self.trouble), "links_down": links}
        counts = {"ecc": asdict(state.ecc), "remap": asdict(state.remap), "replays": state.replays, "xid": state.xid}
        return {"trouble": trouble, "announced": self.announced, **counts, "settings": asdict(state.settings)}

    def restore(self, saved: dict[str, Any]) -> None:
        """Be as ``dump`` has told from the last moment on that is known, after a journey through JSON."""
        trouble = {**saved["trouble"], "links_down": frozenset(saved["trouble"]["links_down"])}
        narrow = tuple(trouble["narrow"]) if trouble["narrow"] else None
        self.announced = saved["announced"]
        self.change(
            self.state.since,
            trouble=Trouble(**{**trouble, "narrow": narrow}),
            ecc=Ecc(**{name: tuple(pair) for name, pair in saved["ecc"].items()}),
            remap=Remap(**saved["remap"]),
            replays=saved["replays"],
            xid=saved["xid"],
            settings=Settings.load(saved.get("settings") or {}),
        )

    def held(self, task: Task, at: datetime) -> int:
        """Return the MiB that one process holds."""
        return task.load.held(self.product.memory, task.elapsed(at))

    def used(self, at: datetime) -> int:
        """Return the MiB that processes hold of it."""
        held = sum(self.held(task, at) for task in self.state_at(at).tasks)
        return min(held, self.product.memory - self.product.reserved // 2)


def limit(product: Product, settings: Settings) -> float:
    """Return the watts that a device may draw: what was set, else what its product has."""
    return settings.power_limit or float(product.power["limit"])


def power_share(state: State, share: Callable[[Task], float]) -> float:
    """Return how much of its power a device uses: its busiest process decides."""
    return min(max(map(share, state.tasks), default=0.0), 1.0)


def mean_power(product: Product, state: State) -> float:
    """Return the watts that a state draws in the long mean: the busiest process decides."""
    idle, most = product.power["idle"], product.power["limit"]
    share = power_share(state, lambda task: task.load.mean(task.load.power))
    slow = 0.5 if state.trouble.hot or state.trouble.power_brake else 1.0
    return min(idle + (most - idle) * share * slow, limit(product, state.settings))


def temperature(product: Product, state: State, at: datetime) -> float:
    """Return the degrees of a moment of a state: it nears what its power leads to."""
    sensors, idle, most = product.temperature, product.power["idle"], product.power["limit"]
    share = (mean_power(product, state) - idle) / (most - idle)
    target = sensors["idle"] + (sensors["busy"] - sensors["idle"]) * share
    if state.trouble.hot:
        target = sensors["slowdown"] + 1
    passed = max((at - state.since).total_seconds(), 0)
    return float(target + (state.heat - target) * math.exp(-passed / COOLING_S))


def energy_mj(product: Product, state: State, at: datetime) -> float:
    """Return the millijoules spent since boot, at a moment of a state."""
    return state.energy_mj + mean_power(product, state) * max((at - state.since).total_seconds(), 0) * 1000
