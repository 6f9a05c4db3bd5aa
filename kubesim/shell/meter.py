"""Use of CPU time by a container's processes, the memory that they hold, and the end of those that hold too much."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from kubesim.shell.machine import Machine

MOST_SAMPLES = 3600
WINDOW_S = 15.0
"""Over how long metrics-server takes the use of CPU."""


@dataclass
class Meter:
    """``total`` core seconds until ``at`` (seconds since 1970); ``rate`` cores are in use until further notice."""

    at: float
    total: float = 0.0
    rate: float = 0.0
    most: float = float("inf")
    """The cores that may be in use at once."""
    samples: list[tuple[float, float]] = field(default_factory=list)
    """(moment, total), one a second at most."""

    def note(self, now: float, computed: float = 0.0) -> None:
        """Come up to now, with ``computed`` core seconds beside what ``rate`` says."""
        if not self.samples or now - self.samples[-1][0] >= 1:
            self.samples.append((self.at, self.total))
            del self.samples[:-MOST_SAMPLES]
        passed = max(now - self.at, 0.0)
        self.total += min(computed + self.rate * passed, self.most * passed)
        self.at = now

    def occupy(self, now: float, cores: float) -> None:
        """Use so many cores more (less, if negative) from now on."""
        self.note(now)
        self.samples.append((now, self.total))
        self.rate = max(self.rate + cores, 0.0)

    def seconds(self, when: float) -> float:
        """Return the core seconds used until a moment."""
        if when >= self.at:
            return self.total + min(self.rate, self.most) * (when - self.at)
        after = bisect_right(self.samples, (when, float("inf")))
        if not after:
            return 0.0
        before, here = self.samples[after - 1], [*self.samples, (self.at, self.total)][after]
        share = (when - before[0]) / (here[0] - before[0]) if here[0] > before[0] else 0.0
        return before[1] + (here[1] - before[1]) * share

    def cores(self, when: float) -> float:
        """Return the cores in use at a moment, as metrics-server measures it."""
        return (self.seconds(when) - self.seconds(when - WINDOW_S)) / WINDOW_S


@dataclass(frozen=True, slots=True)
class Use:
    """What a process uses: cores at this moment, seconds of CPU time since its start, bytes of memory."""

    cores: float = 0.0
    seconds: float = 0.0
    memory: int = 3584 << 10

    def of(self, name: str) -> Use:
        """Return what a program of this name is shown to use: small ones differ in size, as real ones do."""
        small = (1180 + crc32(name.encode("utf-8", "replace")) % 2400) << 10
        return replace(self, memory=small) if self.memory == Use().memory else self

    def part(self, count: int) -> Use:
        """Return what each of ``count`` processes uses that do it together."""
        return Use(self.cores / count, self.seconds / count, self.memory // count)

    @property
    def reserved(self) -> int:
        """The bytes of its address space: a process that fills its memory has reserved more than a small one."""
        return self.memory + (1040 << 10) if self.memory < 64 << 20 else self.memory * 3 // 2


LARGE = 64 << 20
"""Bytes; who holds less matters to no node."""
FILLED = 4 << 30
"""Bytes that a program fills in a second."""


class Holder(ABC):
    """Interface of a process to those who count its memory."""

    machine: Machine
    held: int

    @property
    @abstractmethod
    def dying(self) -> bool:
        """Tell whether a signal has been sent that ends this process."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Sleep on the clock."""

    async def claim(self, size: int) -> None:
        """Hold ``size`` bytes of memory from now on; more than the container may hold ends everything in it."""
        before, self.held = self.held, size
        if size // LARGE > before // LARGE:
            self.machine.on_growth()
            if self.dying:
                await asyncio.sleep(0)
        if self.machine.memory_limit and self.machine.held > self.machine.memory_limit:
            self.machine.on_full()
            self.machine.stop()
            await asyncio.sleep(0)

    async def outgrow(self) -> None:
        """Claim ever more memory, until the limit of the container or the node ends it."""
        if self.machine.memory_limit:
            await self.claim(self.machine.memory_limit + 1)
        else:
            await self.fill(self.machine.memory)

    async def fill(self, size: int) -> None:
        """Claim so many bytes as fast as a program fills them."""
        while self.held < size:
            await self.claim(min(self.held + FILLED, size))
            if self.held < size:
                await self.sleep(1.0)
