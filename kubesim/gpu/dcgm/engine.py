"""Groups and watches that a node's host engine (nv-hostengine) remembers between two calls."""

from __future__ import annotations

from dataclasses import dataclass, field

ALL_GPUS, ALL_SWITCHES = 0, 1
HEALTH_SYSTEMS = "pmtnicasd"


@dataclass
class Group:
    """Some devices under a name; ``gpus`` is None for all there are."""

    name: str
    gpus: list[int] | None
    health: str = ""
    """The letters of the systems that are watched."""


@dataclass
class Engine:
    """The host engine of a node; it begins anew when the node boots."""

    groups: dict[int, Group] = field(
        default_factory=lambda: {
            ALL_GPUS: Group("DCGM_ALL_SUPPORTED_GPUS", None),
            ALL_SWITCHES: Group("DCGM_ALL_SUPPORTED_NVSWITCHES", []),
        }
    )
