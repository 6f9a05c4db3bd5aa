"""How fast an autoscaler may go: bounds, policies, and the memory that keeps it from swinging (pure functions)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kubesim.errors import Obj

DOWN_WINDOW_S = 300
FACTOR, LEAST_LIMIT = 2, 4
WITHIN = ("False", "DesiredWithinRange", "the desired count is within the acceptable range")
TOO_MANY = ("True", "TooManyReplicas", "the desired replica count is more than the maximum replica count")
TOO_FEW = ("True", "TooFewReplicas", "the desired replica count is less than the minimum replica count")
FAST_UP = ("True", "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
FAST_DOWN = ("True", "ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
READY = ("True", "ReadyForNewScale", "recommended size matches current size")
RECENT = "recent recommendations were {} than current one, applying the {} recent recommendation"
HELD_DOWN = ("True", "ScaleDownStabilized", RECENT.format("higher", "highest"))
HELD_UP = ("True", "ScaleUpStabilized", RECENT.format("lower", "lowest"))
Words = tuple[str, str, str]
"""A condition's status, reason and message."""


@dataclass(slots=True)
class Past:
    """What was recommended, and by how much the target has grown or shrunk, each with its time in seconds."""

    recommended: list[tuple[float, int]] = field(default_factory=list)
    changes: list[tuple[float, int]] = field(default_factory=list)

    def grown(self, since: float) -> int:
        """Return the replicas that have come since a time."""
        return sum(change for at, change in self.changes if change > 0 and at > since)

    def shrunk(self, since: float) -> int:
        """Return the replicas that have gone since a time."""
        return -sum(change for at, change in self.changes if change < 0 and at > since)


@dataclass(frozen=True, slots=True)
class Bounds:
    """An autoscaler's bounds and behaviour."""

    least: int
    most: int
    behavior: Obj | None = None

    def settled(self, current: int, wanted: int, past: Past, now: float) -> tuple[int, Words, Words]:
        """Return the replicas to have now, and the words of AbleToScale and ScalingLimited."""
        steady = self._steady(current, wanted, past, now)
        able = READY if steady == wanted else HELD_DOWN if steady > wanted else HELD_UP
        limited = self._limited(current, steady, past, now)
        return *limited[:1], able, limited[1]

    def _steady(self, current: int, wanted: int, past: Past, now: float) -> int:
        """Return a recommendation that does not swing: it remembers those of its window."""
        up, down = (self._window(name) for name in ("scaleUp", "scaleDown"))
        past.recommended = [entry for entry in past.recommended if entry[0] > now - max(up, down)]
        lowest = min([wanted, *_since(past, now - up)])
        highest = max([wanted, *_since(past, now - down)])
        past.recommended.append((now, wanted))
        if self.behavior is None:
            return highest
        return min(max(current, lowest), highest)

    def _window(self, name: str) -> int:
        rules = (self.behavior or {}).get(name) or {}
        default = DOWN_WINDOW_S if name == "scaleDown" else 0
        given = rules.get("stabilizationWindowSeconds")
        return default if given is None else int(given)

    def _limited(self, current: int, wanted: int, past: Past, now: float) -> tuple[int, Words]:
        """Return a recommendation within the bounds, and what has bounded it."""
        fastest = max(FACTOR * current, LEAST_LIMIT)
        slowest, most = 0, self.most
        if self.behavior is not None:
            fastest = max(current, self._policy("scaleUp", current, past, now))
            slowest = min(current, self._policy("scaleDown", current, past, now)) if wanted < current else 0
        if wanted > min(most, fastest) and (wanted > current or self.behavior is None):
            return min(most, fastest), FAST_UP if most > fastest else TOO_MANY
        if wanted < max(self.least, slowest):
            return max(self.least, slowest), FAST_DOWN if slowest > self.least else TOO_FEW
        return wanted, WITHIN

    def _policy(self, name: str, current: int, past: Past, now: float) -> int:
        """Return how far the policies of a direction let the target go."""
        rules = (self.behavior or {}).get(name) or {}
        choice = rules.get("selectPolicy", "Max")
        if choice == "Disabled":
            return current
        up = name == "scaleUp"
        reached = [_reach(policy, current, past, now, up=up) for policy in rules.get("policies") or ()]
        if not reached:
            return self.most if up else self.least
        return max(reached) if (choice == "Max") is up else min(reached)


def _since(past: Past, start: float) -> Iterable[int]:
    return (wanted for at, wanted in past.recommended if at > start)


def _reach(policy: Any, current: int, past: Past, now: float, *, up: bool) -> int:
    """Return the replicas that a policy allows: what there was when its period began, and its share more or less."""
    begin = now - policy["periodSeconds"]
    start = current - past.grown(begin) + past.shrunk(begin)
    sign = 1 if up else -1
    if policy["type"] == "Pods":
        return int(start + sign * policy["value"])
    share = start * (1 + sign * policy["value"] / 100)
    return math.ceil(round(share, 9)) if up else int(round(share, 9))
