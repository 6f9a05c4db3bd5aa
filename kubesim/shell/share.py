"""What the containers of one cluster may take of the machine that all of it runs on: computing time and memory.

A candidate may start a hundred pods that never rest, and fill the disk of each. Whoever else has a cluster in this
process must not notice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Allowance:
    """Computing at ``rate`` of a core in the long run, ``burst`` seconds of it at once; ``above`` counts it, too."""

    rate: float
    burst: float
    above: Allowance | None = None
    debt: float = 0.0
    at: float = 0.0

    def spend(self, now: float, seconds: float) -> None:
        """Count seconds of computing."""
        self.debt = max(self.debt - (now - self.at) * self.rate, 0.0) + seconds
        self.at = now
        if self.above is not None:
            self.above.spend(now, seconds)

    def wait(self, now: float) -> float:
        """Return the seconds until there may be more of it. Those who ask one after another wait ever longer."""
        debt = self.debt - (now - self.at) * self.rate
        own = max(debt - self.burst, 0.0) / self.rate
        return max(own, self.above.wait(now)) if self.above is not None else own


@dataclass(slots=True)
class Room:
    """Bytes that may be kept."""

    limit: int
    used: int = 0
    above: Room | None = None

    @property
    def left(self) -> int:
        """The bytes that still fit."""
        return max(self.limit - self.used, 0)

    def take(self, size: int) -> bool:
        """Count so many bytes more (less, if negative); False, and nothing counted, where they do not fit."""
        if size > 0 and self.used + size > self.limit:
            return False
        if self.above is not None and not self.above.take(size):
            return False
        self.used = max(self.used + size, 0)
        return True


@dataclass(slots=True)
class Memory(Room):
    """A file system in memory (tmpfs). ``by``: how many of its bytes count as whose memory."""

    by: dict[int, int] = field(default_factory=dict)

    def charge(self, size: int, who: int) -> bool:
        """Count bytes as somebody's; False, and nothing counted, where they do not fit."""
        if not self.take(size):
            return False
        self.by[who] = max(self.by.get(who, 0) + size, 0)
        return True

    def adopt(self, who: int) -> None:
        """Count as somebody's what nobody has any more: its container was started again."""
        if (left := self.used - sum(self.by.values())) > 0:
            self.by[who] = self.by.get(who, 0) + left


BYTES_OF_ENTRY, OWN_ENTRIES = 16_384, 178_000
"""ext4 has an entry for so many bytes; a node's own system has so many."""


@dataclass(slots=True)
class Disk(Room):
    """The disk of a node. ``count`` counts anew what is used of it: what was taken since is near enough."""

    count: Callable[[], tuple[int, int]] | None = None
    """Returns bytes and entries."""
    entries: int = OWN_ENTRIES

    @property
    def inodes(self) -> int:
        """How many entries its file system has room for."""
        return self.limit // BYTES_OF_ENTRY

    def look(self) -> int:
        """Return the bytes that are used, counted anew."""
        if self.count is not None:
            used, self.entries = self.count()
            self.used = min(used, self.limit)
        return self.used


CLUSTER_RATE, CLUSTER_BURST_S = 0.4, 2.0
CONTAINER_RATE, CONTAINER_BURST_S = 0.2, 1.0
CLUSTER_ROOM, CONTAINER_ROOM = 256 << 20, 64 << 20
MAX_WORKERS, MAX_TERRAFORMS = 2, 4
"""Processes of the host that compute for a cluster's containers at a time; a Terraform may wait for an answer."""


@dataclass(slots=True)
class Share:
    """What all containers of a cluster have together."""

    computing: Allowance = field(default_factory=lambda: Allowance(CLUSTER_RATE, CLUSTER_BURST_S))
    disk: Room = field(default_factory=lambda: Room(CLUSTER_ROOM))
    memory: Room = field(default_factory=lambda: Room(CLUSTER_ROOM))
    workers: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_WORKERS))
    terraforms: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_TERRAFORMS))

    def of_container(self) -> tuple[Allowance, Room]:
        """Return the computing and the memory that one more container may have."""
        computing = Allowance(CONTAINER_RATE, CONTAINER_BURST_S, self.computing)
        return computing, Room(CONTAINER_ROOM, above=self.memory)


class Pacer:
    """Counts the computing of one process, which is all that happens while it has the event loop.

    That is this thread's own time, so that a machine which others keep busy takes nothing from a container's share.
    """

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._resumed = 0.0

    def resume(self) -> None:
        """Note that the process has the event loop from now on."""
        self._resumed = time.thread_time()

    def settle(self) -> None:
        """Count what the process has computed since."""
        before, self._resumed = self._resumed, time.thread_time()
        self._allowance.spend(time.perf_counter(), self._resumed - before)

    def late(self) -> bool:
        """Tell whether it has to wait."""
        return self._allowance.wait(time.perf_counter()) > 0

    async def rest(self) -> None:
        """Let others have the event loop, and wait where there was more than the share."""
        self.settle()
        await asyncio.sleep(self._allowance.wait(time.perf_counter()))


class Steps(Coroutine[Any, Any, None]):
    """A coroutine whose steps are timed."""

    def __init__(self, steps: Coroutine[Any, Any, None], pacer: Pacer) -> None:
        self._steps = steps
        self._pacer = pacer

    def send(self, value: Any) -> Any:
        """Go on."""
        self._pacer.resume()
        try:
            return self._steps.send(value)
        finally:
            self._pacer.settle()

    def throw(self, *error: Any) -> Any:
        """Go on with an error."""
        self._pacer.resume()
        try:
            return self._steps.throw(*error)
        finally:
            self._pacer.settle()

    def close(self) -> None:
        """End without going on."""
        self._steps.close()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._steps.__await__()
