"""What filters answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kubesim.scheduler.state import NodeState


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node is out: the reasons as texts, and the plugin that has them.

    It is resolvable if removing pods from the node could lift it.
    """

    reasons: tuple[str, ...]
    plugin: str = ""
    resolvable: bool = False


Check = Callable[[NodeState], Refusal | None]


class HinderedError(Exception):
    """A pod can be on no node at all, whatever the nodes are; the message says why."""

    def __init__(self, message: str, plugin: str) -> None:
        super().__init__(message)
        self.plugin = plugin
