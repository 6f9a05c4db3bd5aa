"""How fast the nodes of a zone may be emptied: one in ten seconds, fewer where most are lost, none where all are.

Many lost nodes at once mean that the control plane is cut off, not that they have all failed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from kubesim.clock import Clock
from kubesim.errors import Obj
from kubesim.schema.paths import is_true

State = Literal["normal", "partly lost", "lost"]
RATE_HZ = 0.1
SLOW_RATE_HZ = 0.01
LARGE_ZONE = 50
"""A zone of more nodes than this is emptied slowly when most of it is lost, a smaller one not at all."""
LOST_SHARE = 0.55
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


class Zones:
    """The state of each zone; ``recovered`` tells that the last look found nodes again after all had been lost."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._states: dict[str, State] = {}
        self._rates: dict[str, float] = {}
        self._last: dict[str, datetime] = {}
        self.recovered = False

    def judge(self, nodes: list[Obj]) -> Literal["all lost", ""]:
        """Take in the nodes; tells when all have just been lost."""
        conditions: dict[str, list[bool]] = {}
        for node in nodes:
            conditions.setdefault(zone_of(node), []).append(is_true(node, "Ready"))
        states = {zone: _state(found) for zone, found in conditions.items()}
        was_lost = bool(self._states) and all(state == "lost" for state in self._states.values())
        is_lost = bool(states) and all(state == "lost" for state in states.values())
        self.recovered = was_lost and not is_lost
        self._states = states
        self._rates = {
            zone: 0.0 if is_lost else _rate(states[zone], len(found)) for zone, found in conditions.items()
        }
        return "all lost" if is_lost and not was_lost else ""

    def may_turn_out(self, zone: str) -> bool:
        """Tell whether a node of a zone may be emptied now; it is counted if so."""
        rate, now = self._rates.get(zone, 0.0), self._clock.now()
        last = self._last.get(zone)
        if not rate or (last is not None and (now - last).total_seconds() * rate < 1):
            return False
        self._last[zone] = now
        return True


def zone_of(node: Obj) -> str:
    """Return the region and zone of a node."""
    labels = node["metadata"].get("labels") or {}
    return f"{labels.get(REGION, '')}:{labels.get(ZONE, '')}"


def _state(ready: list[bool]) -> State:
    lost = len(ready) - sum(ready)
    if lost == len(ready):
        return "lost"
    return "partly lost" if lost > 2 and lost / len(ready) >= LOST_SHARE else "normal"


def _rate(state: State, nodes: int) -> float:
    if state != "partly lost":
        return RATE_HZ
    return SLOW_RATE_HZ if nodes > LARGE_ZONE else 0.0
