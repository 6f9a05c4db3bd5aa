"""A cloud network's firewall: rules that let traffic of nodes and pods through, or drop it without an answer.

The rules are those of Google's VPC (see ``cloud/compute.py``): the lowest priority number decides, a deny before an
allow of the same number; what no rule names may leave, and may arrive from inside the network.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from kubesim.errors import Obj

DEFAULT_PRIORITY = 1000
EVERYWHERE = "0.0.0.0/0"
NUMBERS = {"1": "icmp", "6": "tcp", "17": "udp"}
METADATA = "169.254.169.254"
"""The metadata and name server of the machines, which no rule closes."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, for the nodes in ``targets`` (empty: all)."""

    egress: bool
    allow: bool
    priority: int
    ranges: tuple[str, ...]
    matches: tuple[tuple[str, tuple[str, ...]], ...]
    """(protocol, ports), no ports for all."""
    targets: frozenset[str] = frozenset()

    def hits(self, tags: frozenset[str], address: str, port: int, protocol: str) -> bool:
        """Whether it decides on traffic of a node with ``tags`` with an address."""
        if self.targets and not self.targets & tags:
            return False
        return _within(address, self.ranges) and any(
            name in ("all", protocol.lower()) and (not ports or any(_port_in(port, text) for text in ports))
            for name, ports in self.matches
        )


class Firewall:
    """The rules in force."""

    def __init__(self) -> None:
        self.rules: tuple[Rule, ...] = ()

    def passes(
        self, tags: frozenset[str], address: str, port: int, protocol: str = "tcp", *, egress: bool = True
    ) -> bool:
        """Whether traffic of a node gets through: to an address where it leaves, from one where it arrives."""
        if address == METADATA:
            return True
        found = [r for r in self.rules if r.egress == egress and r.hits(tags, address, port, protocol)]
        return min(found, key=lambda rule: (rule.priority, rule.allow)).allow if found else True


def rules(items: Iterable[Obj]) -> tuple[Rule, ...]:
    """Return the rules of firewalls, as Compute Engine writes them, that are not disabled."""
    return tuple(rule for item in items if not item.get("disabled") for rule in _rules(item))


def _rules(item: Obj) -> Iterable[Rule]:
    egress = item.get("direction") == "EGRESS"
    ranges = tuple(item.get("destinationRanges" if egress else "sourceRanges") or (EVERYWHERE,))
    targets = frozenset(item.get("targetTags") or item.get("targetServiceAccounts") or ())
    for name in ("allowed", "denied"):
        entries = [(str(entry["IPProtocol"]).lower(), entry.get("ports") or ()) for entry in item.get(name) or ()]
        matches = tuple((NUMBERS.get(protocol, protocol), tuple(map(str, ports))) for protocol, ports in entries)
        if matches:
            priority = int(item.get("priority", DEFAULT_PRIORITY))
            yield Rule(egress, name == "allowed", priority, ranges, matches, targets)


def _within(address: str, ranges: tuple[str, ...]) -> bool:
    try:
        found = ipaddress.ip_address(address)
        return any(found in ipaddress.ip_network(item, strict=False) for item in ranges)
    except ValueError:
        return False


def _port_in(port: int, text: str) -> bool:
    first, _, last = text.partition("-")
    return first.isdecimal() and int(first) <= port <= int(last or first) if (last or "0").isdecimal() else False
