"""What a node's memory and processors have been used for, by all that has run on it since it was started."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kubesim.api.quantity import parse
from kubesim.kubelet.usage import MIB, SYSTEM_CPU, SYSTEM_MEMORY_MIB
from kubesim.shell.vitals import Vitals

if TYPE_CHECKING:
    from kubesim.kubelet.footprint import Process

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
