"""What a node's host engine (nv-hostengine) remembers between two calls."""

from __future__ import annotations

from dataclasses import dataclass

HEALTH_SYSTEMS = "pmtnicasd"


@dataclass
class Engine:
    """The host engine of a node, with its group of all GPUs; it begins anew when the node boots."""

    health: str = ""
    """The letters of the systems that are watched."""
