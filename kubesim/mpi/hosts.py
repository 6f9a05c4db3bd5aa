"""The hosts of an MPI job with their slots, and the ranks that each is given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kubesim.mpi.options import Call

MAX_RANKS = 4096
"""More processes than this are not counted with: no machine here could start them."""


class TooFewSlots(Exception):
    """More processes than slots; ``count`` were asked for."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count


class TooMany(Exception):
    """More processes than the kernel lets a container have."""


class NotAllocated(Exception):
    """A host of -host that the hostfile does not name."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host and how many processes may run there; 0: as many as it has cores."""

    name: str
    slots: int = 0


def whole(text: str, default: int) -> int:
    """Return a whole number of sensible length."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else default


def read_hostfile(text: str) -> list[Host]:
    """Return the hosts of a hostfile, each once."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        words = re.sub(r"\s*=\s*", "=", line.partition("#")[0]).split()
        if not words:
            continue
        name, _, slots = words[0].partition(":")
        settings = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        count = settings.get("slots", slots)
        found[name] = min(found.get(name, 0) + whole(count, 0), MAX_RANKS)
    return [Host(name, slots) for name, slots in found.items()]


def read_hosts(words: str) -> list[Host]:
    """Return the hosts of -host: one slot for each mention, or as many as stand behind a colon."""
    found: dict[str, int] = {}
    for word in filter(None, words.split(",")):
        name, _, slots = word.partition(":")
        found[name] = min(found.get(name, 0) + whole(slots, 1), MAX_RANKS)
    return [Host(name, slots) for name, slots in found.items()]


def choose(listed: list[Host], asked: list[Host]) -> list[Host]:
    """Return the hosts that a job may use: those of -host, which the hostfile must name where there is one.

    Raises ``NotAllocated``.
    """
    if not asked or not listed:
        return asked or listed
    known = {host.name: host for host in listed}
    if any(host.name not in known for host in asked):
        raise NotAllocated
    return [replace(known[host.name], slots=host.slots) for host in asked]


def place(call: Call, hosts: Sequence[Host]) -> list[list[int]]:
    """Return the ranks of each host. Raises ``TooFewSlots``, ``UsageError``."""
    each = 1 if call.has("pernode") else call.number("N")
    policy = call.given.get("map-by", "")
    if match := re.match(r"ppr:(\d+):node", policy):
        each = whole(match[1], 1)
    room = [each if each is not None else host.slots for host in hosts]
    free = call.has("oversubscribe") or "OVERSUBSCRIBE" in policy.upper().replace("NOOVERSUBSCRIBE", "")
    count = call.number("np") or sum(room)
    if not free and (count > sum(room) or any(more > host.slots for more, host in zip(room, hosts, strict=True))):
        raise TooFewSlots(count)
    if count > MAX_RANKS:
        raise TooMany
    by_node = call.has("bynode") or policy.startswith("node")
    counts = _spread(count, room) if by_node else _fill(count, room)
    found, first = [], 0
    if by_node:
        return [[*range(index, count, len(room))][:more] for index, more in enumerate(counts)]
    for more in counts:
        found.append([*range(first, first + more)])
        first += more
    return found


def _fill(count: int, room: list[int]) -> list[int]:
    """Fill one host after the other; what is too much is shared by all."""
    counts: list[int] = []
    for slots in room:
        counts.append(min(slots, max(count - sum(counts), 0)))
    more, left = divmod(count - sum(counts), len(counts))
    return [slots + more + (at < left) for at, slots in enumerate(counts)]


def _spread(count: int, room: list[int]) -> list[int]:
    """Give each host one in its turn."""
    return [len(range(index, count, len(room))) for index in range(len(room))]
