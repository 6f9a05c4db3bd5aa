"""Pods that fit nowhere, and what change is worth another look at them; pods in line, the most important first."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

NEIGHBOURS = frozenset({"PodTopologySpread", "InterPodAffinity"})
CAUSES = {
    "pod gone": NEIGHBOURS | {"NodePorts", "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits"},
    "pod placed": NEIGHBOURS,
    "node": frozenset({"Nodes", "PodTopologySpread"}),
    "volumes": frozenset({"VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"}),
    "claims": frozenset({"DynamicResources"}),
}
"""What happens -> the plugins whose refusals it may lift. A node counts for the others only where the pod fits it."""


class Waiting:
    """The refused pods by key, with the plugins that refused them."""

    def __init__(self) -> None:
        self._refused: dict[str, frozenset[str]] = {}

    def put(self, key: str, plugins: frozenset[str]) -> None:
        """Let a pod wait."""
        self._refused[key] = plugins

    def drop(self, key: str) -> None:
        """Forget a pod."""
        self._refused.pop(key, None)

    def others(self, cause: str) -> list[str]:
        """Return the pods that a cause may not help by itself."""
        return [key for key, plugins in self._refused.items() if not plugins & CAUSES[cause]]

    def helped(self, cause: str) -> list[str]:
        """Return the pods that a cause may help."""
        return [key for key, plugins in self._refused.items() if plugins & CAUSES[cause]]


class Ranked:
    """A line in which the higher priority goes first, and of equals who came first."""

    def __init__(self, priority: Callable[[str], int]) -> None:
        self._priority = priority
        self._heap: list[tuple[int, int, str]] = []
        self._order = itertools.count()

    def append(self, key: str, /) -> None:
        """Take one in."""
        heapq.heappush(self._heap, (-self._priority(key), next(self._order), key))

    def popleft(self) -> str:
        """Let the first one go."""
        return heapq.heappop(self._heap)[2]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._heap)
