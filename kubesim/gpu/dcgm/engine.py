"""What a node's host engine (nv-hostengine) remembers between two calls: groups, watches, jobs, policies."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

ALL_GPUS, ALL_SWITCHES = 0, 1
HEALTH_SYSTEMS = "pmtnicasd"


@dataclass
class Group:
    """Some devices under a name; ``gpus`` is None for all there are."""

    name: str
    gpus: list[int] | None
    health: str = ""
    """The letters of the systems that are watched."""
    watches_pids: bool = False
    conditions: list[str] = field(default_factory=list)
    """The policy: what counts as a violation."""


@dataclass(frozen=True, slots=True)
class Job:
    """A span of time for which statistics are kept; ``stop`` is None while it runs."""

    group: int
    start: datetime
    stop: datetime | None = None


@dataclass
class Engine:
    """The host engine of a node; it begins anew when the node boots."""

    groups: dict[int, Group] = field(
        default_factory=lambda: {
            ALL_GPUS: Group("DCGM_ALL_SUPPORTED_GPUS", None),
            ALL_SWITCHES: Group("DCGM_ALL_SUPPORTED_NVSWITCHES", []),
        }
    )
    jobs: dict[str, Job] = field(default_factory=dict)
    next_group: int = 2
    profiling: bool = True

    def create(self, name: str, gpus: list[int] | None) -> int:
        """Make a group; returns its number."""
        number, self.next_group = self.next_group, self.next_group + 1
        self.groups[number] = Group(name, gpus)
        return number
