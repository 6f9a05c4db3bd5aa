"""Use of CPU, memory and network by containers: functions of the seconds since their process started."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubesim import data
from kubesim.api.quantity import parse
from kubesim.errors import Obj
from kubesim.kubelet.records import Container
from kubesim.shell.meter import Use
from kubesim.shell.vitals import Vitals

if TYPE_CHECKING:
    from kubesim.kubelet.footprint import Process
    from kubesim.kubelet.pod import PodWorker


MIB = 1024 * 1024
WARM_S = 12.0
"""How long memory takes to be filled."""
PAGE = 4096
MEMORY_SPREAD, MEMORY_SWING = 0.09, 0.004
"""The difference between the memory of two programs of one kind, and the swing of one's, as shares."""
SYSTEM_CPU, SYSTEM_MEMORY_MIB = 0.19, 1480
"""What a node's own services use, beside its pods."""
_table = data.beside(__file__, "usage.yaml")


@dataclass(frozen=True, slots=True)
class Usage:
    """What one process uses; ``cpu_limit`` in cores and ``memory_limit`` in bytes hold it down (0: none)."""

    low: float
    high: float
    memory_mib: float
    needs_mib: float
    period: float
    received_kb: float
    sent_kb: float
    seed: str
    cpu_limit: float = 0.0
    memory_limit: float = 0.0

    @property
    def mean(self) -> float:
        """The cores used in the long run."""
        mean = (self.low + self.high) / 2
        return min(mean, self.cpu_limit) if self.cpu_limit else mean

    @property
    def _swing(self) -> float:
        """Half of what it swings, less where its limit is near."""
        swing = (self.high - self.low) / 2
        return min(swing, max(self.cpu_limit - self.mean, 0.0)) if self.cpu_limit else swing

    def _angle(self, elapsed_s: float) -> float:
        return 2 * math.pi * (elapsed_s / self.period + zlib.crc32(self.seed.encode()) / 0xFFFFFFFF)

    def cpu(self, elapsed_s: float) -> float:
        """Return the cores used at a moment."""
        return self.mean + self._swing * math.cos(self._angle(elapsed_s))

    def cpu_seconds(self, elapsed_s: float) -> float:
        """Return the CPU time used since the start: the integral of ``cpu``, so that rates agree with it."""
        turn = self.period / (2 * math.pi)
        wave = math.sin(self._angle(elapsed_s)) - math.sin(self._angle(0))
        return max(self.mean * elapsed_s + self._swing * turn * wave, 0.0)

    def memory(self, elapsed_s: float) -> float:
        """Return the bytes of the working set."""
        wave = 1 + MEMORY_SWING * math.cos(self._angle(elapsed_s / 3))
        wanted = self.memory_mib * MIB * min(0.25 + 0.75 * elapsed_s / WARM_S, 1.0) * wave
        return min(wanted, self.memory_limit * 0.97 if self.memory_limit else wanted) // PAGE * PAGE

    def full_at(self) -> float | None:
        """Return when it needs more than its limit, in seconds since the start; None: its limit is enough.

        What it holds beyond its need are pages of files and buffers, which it gives back where memory is short.
        """
        needed, limit = self.needs_mib * MIB, self.memory_limit
        return max((limit / needed - 0.25) / 0.75, 0.02) * WARM_S if limit and needed > limit else None

    def at(self, elapsed_s: float) -> Use:
        """Return all that a process uses at a moment."""
        return Use(self.cpu(elapsed_s), self.cpu_seconds(elapsed_s), int(self.memory(elapsed_s)))

    def received(self, elapsed_s: float) -> float:
        """Return the bytes received since the start."""
        return self.received_kb * 1000 * elapsed_s

    def sent(self, elapsed_s: float) -> float:
        """Return the bytes sent since the start."""
        return self.sent_kb * 1000 * elapsed_s


def usage(workload: str, seed: str, *, cpu_limit: float = 0.0, memory_limit: float = 0.0) -> Usage:
    """Return what a workload of ``behaviours.yaml`` uses (any other name: what a small process does)."""
    entry = _table().get(workload) or _table()[""]
    low, high = entry["cpu"]
    received, sent = entry["network"]
    own = 1 - MEMORY_SPREAD * (0.5 - zlib.crc32(f"{seed}/memory".encode()) / 0xFFFFFFFF)
    memory, needs = entry["memory"] * own, entry["needs"]
    return Usage(low, high, memory, needs, entry["period"], received, sent, seed, cpu_limit, memory_limit)


def held_mib(workload: str) -> float:
    """Return the MiB that a workload holds in the end, if nothing keeps it down."""
    return float((_table().get(workload) or _table()[""])["memory"])


def cpu_limit(spec: Obj) -> float:
    """Return the cores that a container may use at once; 0: no limit."""
    return float(parse(str(((spec.get("resources") or {}).get("limits") or {}).get("cpu", 0))))


def of(worker: PodWorker, container: Container) -> Usage:
    """Return what a container's own process uses, within its limits."""
    limits = (worker.record.spec(container).get("resources") or {}).get("limits") or {}
    cpu, memory = (float(parse(str(limits.get(name, 0)))) for name in ("cpu", "memory"))
    seed = f"{worker.record.uid}/{container.name}"
    image = worker.record.images[worker.record.spec(container)["image"]]
    if image.program and (own := image.own.get("load")):
        low, high = own.get("cpu", (0.0002, 0.0012))
        received, sent = own.get("network", (0.2, 0.1))
        held, needs = own.get("memory", 6), own.get("needs", 0)
        return Usage(low, high, held, needs, 30, received, sent, seed, cpu, memory)
    return usage(worker.program(container).load, seed, cpu_limit=cpu, memory_limit=memory)


LOADS_S = (60, 300, 900)
MOST_ENDED = 500
"""Processes that have ended of which it is still known when they ran."""
MOST_MOMENTS = 256


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that is gone: when it ran, and the core seconds and bytes that it had used."""

    started: float
    ended: float
    seconds: float
    received: float
    sent: float

    def share(self, at: float) -> float:
        """Return how much of it was over at a moment."""
        return min(max((at - self.started) / max(self.ended - self.started, 0.001), 0.0), 1.0)


class Ledger:
    """Counts what a node's processes use; what those have used that are gone stays counted, so that it never falls.

    It is brought up to date when somebody looks: nothing is done where nobody does.
    """

    def __init__(
        self, processes: Callable[[], Iterable[Process]], capacity: Mapping[str, str], booted: Callable[[], float]
    ) -> None:
        """``booted`` returns since when the machine runs (seconds since 1970); ``capacity`` is the node's."""
        self._processes = processes
        self._capacity = capacity
        self._booted = booted
        self._running: dict[tuple[str, str, float], Process] = {}
        self._ended: list[Ended] = []
        self._before = [0.0, 0.0, 0.0]
        """Core seconds, bytes received and sent by what is no longer known one by one."""
        self._looked = self._boot = 0.0
        self._moments: dict[float, Vitals] = {}
        self.outside = 0
        """Bytes of memory that are used by what is no pod and no usual part of the node's system."""

    @property
    def booted(self) -> float:
        """Since when the machine runs, in seconds since 1970."""
        return self._booted()

    def look(self, now: float) -> None:
        """Come up to now: what has ended is counted for good."""
        self._moments.clear()
        if self._booted() != self._boot:
            self._boot, self._before = self._booted(), [0.0, 0.0, 0.0]
            self._running.clear()
            self._ended.clear()
        found = {(p.pod["metadata"]["uid"], p.container, p.started): p for p in self._processes()}
        for key, process in self._running.items():
            if key not in found or found[key].ended is not None:
                self._close(found.get(key, process), self._looked)
        self._running = {key: process for key, process in found.items() if process.ended is None}
        self._looked = now

    def _close(self, process: Process, seen: float) -> None:
        ended = process.ended if process.ended is not None else seen
        elapsed, use = max(ended - process.started, 0.0), process.usage
        self._ended.append(
            Ended(process.started, ended, use.cpu_seconds(elapsed), use.received(elapsed), use.sent(elapsed))
        )
        if len(self._ended) > MOST_ENDED:
            oldest = self._ended.pop(0)
            for number, amount in enumerate((oldest.seconds, oldest.received, oldest.sent)):
                self._before[number] += amount

    def busy(self, at: float) -> float:
        """Return the core seconds used until a moment, since the machine was started."""
        running = sum(p.usage.cpu_seconds(at - p.started) for p in self._running.values() if p.started <= at)
        ended = sum(each.seconds * each.share(at) for each in self._ended)
        return SYSTEM_CPU * max(at - self._booted(), 0.0) + running + ended + self._before[0]

    def network(self, at: float) -> tuple[float, float]:
        """Return the bytes received and sent by pods until a moment."""
        received, sent = self._before[1:]
        for process in self._running.values():
            if process.started <= at:
                received += process.usage.received(at - process.started)
                sent += process.usage.sent(at - process.started)
        for each in self._ended:
            received, sent = received + each.received * each.share(at), sent + each.sent * each.share(at)
        return received, sent

    def used(self, at: float) -> int:
        """Return the bytes of memory in use at a moment."""
        running = sum(p.usage.memory(at - p.started) for p in self._running.values() if p.started <= at)
        return int(self.own + running)

    @property
    def own(self) -> int:
        """The bytes of memory that the node uses beside its pods."""
        return SYSTEM_MEMORY_MIB * MIB + self.outside

    def now(self, moment: float) -> Vitals:
        """Return how the node fares at this moment."""
        self.look(moment)
        return self.at(moment)

    def at(self, moment: float) -> Vitals:
        """Return how the node fared at a moment since it was started, the last of them being remembered."""
        if (known := self._moments.get(moment)) is not None:
            return known
        booted, busy = self._booted(), self.busy(moment)
        loads = [(busy - self.busy(max(moment - span, booted))) / span for span in LOADS_S]
        memory = int(parse(str(self._capacity.get("memory", "4Gi"))))
        found = Vitals(
            memory=memory,
            used=min(self.used(moment), memory),
            cpus=int(parse(str(self._capacity.get("cpu", "2")))),
            up_s=max(moment - booted, 0.0),
            busy_s=busy,
            loads=(loads[0], loads[1], loads[2]),
        )
        if len(self._moments) >= MOST_MOMENTS:
            self._moments.clear()
        self._moments[moment] = found
        return found
