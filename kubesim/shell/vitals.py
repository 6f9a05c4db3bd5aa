"""How a node's memory and processors fare: what free, top, uptime, /proc and a node's exporter all tell."""

from __future__ import annotations

from dataclasses import dataclass

MODES = {"user": 0.74, "system": 0.19, "softirq": 0.03, "iowait": 0.02, "nice": 0.02, "irq": 0.0, "steal": 0.0}
"""Kind of time that processors spend -> its share of the time in which they are busy."""
SHARED = 4 << 20
BUFFERS = 2 << 20
MOST_CACHED = 10
"""Pages of files fill one part in so many of a node's memory, where there is room."""


@dataclass(frozen=True, slots=True)
class Vitals:
    """A node at a moment: bytes of memory, processors, seconds since its start, and how busy it was."""

    memory: int
    used: int
    cpus: int
    up_s: float
    busy_s: float = 0.0
    """Core seconds since its start."""
    loads: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Cores in use, averaged over one, five and fifteen minutes."""

    @property
    def cached(self) -> int:
        """Bytes that hold pages of files, and go where memory is wanted."""
        return max(min(self.memory // MOST_CACHED, self.memory - self.used - BUFFERS), 0)

    @property
    def free(self) -> int:
        """Bytes that hold nothing."""
        return max(self.memory - self.used - self.cached - BUFFERS, 0)

    @property
    def available(self) -> int:
        """Bytes that programs could have."""
        return max(self.memory - self.used, 0)

    def meminfo(self) -> dict[str, int]:
        """Return the fields of /proc/meminfo in their order, in bytes."""
        anonymous, pages = int(self.used * 0.86), self.cached
        return {
            "MemTotal": self.memory, "MemFree": self.free, "MemAvailable": self.available, "Buffers": BUFFERS,
            "Cached": pages, "SwapCached": 0, "Active": int(pages * 0.42) + anonymous // 40,
            "Inactive": pages - int(pages * 0.42) + anonymous, "Active(anon)": anonymous // 40,
            "Inactive(anon)": anonymous, "Active(file)": int(pages * 0.42),
            "Inactive(file)": pages - int(pages * 0.42), "Unevictable": 0, "Mlocked": 0, "SwapTotal": 0,
            "SwapFree": 0, "Dirty": 284 << 10, "Writeback": 0, "AnonPages": anonymous, "Mapped": pages // 20,
            "Shmem": SHARED, "KReclaimable": self.used // 25, "Slab": self.used // 14,
            "SReclaimable": self.used // 25, "SUnreclaim": self.used // 14 - self.used // 25, "KernelStack": 11 << 20,
            "PageTables": 24 << 20, "CommitLimit": self.memory // 2, "Committed_AS": self.used * 2,
            "HugePages_Total": 0, "HugePages_Free": 0,
        }  # fmt: skip

    def times(self) -> dict[str, float]:
        """Return the seconds that all processors together have spent in each mode since the start."""
        found = {mode: self.busy_s * share for mode, share in MODES.items()}
        return {"idle": max(self.up_s * self.cpus - self.busy_s, 0.0), **found}


def usual(memory: int, cpus: int, up_s: float) -> Vitals:
    """Return how a node might fare that nobody measures."""
    return Vitals(memory, memory // 20, cpus, up_s, 0.4 * up_s, (0.42, 0.35, 0.31))
