"""The command line of mpirun. Source: mpirun(1) of Open MPI 4.1."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kubesim import data

_table: data.Reader[dict[str, str]] = data.beside(__file__, "texts.yaml")
NAMES = {"n": "np", "c": "np", "machinefile": "hostfile", "H": "host", "npernode": "N", "wd": "wdir", "gmca": "mca"}
"""Other spellings of an option."""


class UsageError(Exception):
    """A command line that mpirun does not take; the message is what it prints."""


@dataclass
class Call:
    """One application of a command line: the options before a program, and the program with its arguments."""

    given: dict[str, str] = field(default_factory=dict)
    forwarded: list[str] = field(default_factory=list)
    """The words of -x."""
    parameters: dict[str, str] = field(default_factory=dict)
    """Of the modular component architecture: --mca, or OMPI_MCA_... in the environment."""
    argv: list[str] = field(default_factory=list)
    programs: list[tuple[int, list[str]]] = field(default_factory=list)
    """Of each application that a colon ends: how many of its processes there are, and its words."""

    def has(self, *names: str) -> bool:
        """Return whether one of these options was given."""
        return any(name in self.given for name in names)

    def number(self, name: str) -> int | None:
        """Return the whole number of an option. Raises ``UsageError``."""
        text = self.given.get(name)
        if text is not None and not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise UsageError(_table()["wrong_number"].format(name=name, value=text))
        return int(text) if text is not None else None

    def environment(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that -x sends to every process: with a value, or as they are here."""
        pairs = [word.partition("=") for word in self.forwarded]
        sent = {name: value if equals else own[name] for name, equals, value in pairs if equals or name in own}
        mca = {name: value for name, value in own.items() if name.startswith("OMPI_")}
        return {**mca, **{f"OMPI_MCA_{name}": value for name, value in self.parameters.items()}, **sent}


HINT = "\nType 'mpirun --help' for usage.\n"


def parse(words: list[str], own: Mapping[str, str]) -> Call:
    """Return what a command line says; ``own`` is mpirun's environment. Raises ``UsageError``.

    Colons part applications, each of so many processes, of which the first has the options for all.
    """
    if ":" not in words:
        return _parse(words, own)
    parts = "\0".join(words).split("\0:\0")
    calls = [_parse(part.split("\0"), own) for part in parts]
    whole = calls[0]
    whole.programs = [(each.number("np") or 1, each.argv) for each in calls]
    whole.given["np"] = str(sum(count for count, _ in whole.programs))
    return whole


def _parse(words: list[str], own: Mapping[str, str]) -> Call:
    call = Call()
    call.parameters = {
        name.removeprefix("OMPI_MCA_"): value for name, value in own.items() if name.startswith("OMPI_MCA_")
    }
    rest, valued = [*words], _table()["valued"].split()
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        name = word.lstrip("-")
        name = NAMES.get(name, name)
        if name not in [*valued, *_table()["flags"].split()]:
            raise UsageError(f'mpirun: Error: unknown option "{word}"{HINT}')
        if len(rest) < (2 if name == "mca" else name in valued):
            raise UsageError(f'mpirun: Error: option "{word}" did not have enough parameters (1){HINT}')
        _take(call, name, rest, valued=name in valued)
    call.argv = rest
    return call


def _take(call: Call, name: str, rest: list[str], *, valued: bool) -> None:
    if name == "mca":
        call.parameters[rest.pop(0)] = rest.pop(0)
    elif name == "x":
        call.forwarded.append(rest.pop(0))
    elif name == "host":
        call.given[name] = ",".join(filter(None, [call.given.get(name, ""), rest.pop(0)]))
    else:
        call.given[name] = rest.pop(0) if valued else ""


RULE = "-" * 74 + "\n"


def show(name: str, **values: object) -> str:
    """Return a message between two lines of hyphens."""
    return f"{RULE}{_table()[name].format(**values)}{RULE}"


def usage() -> str:
    """Return what mpirun prints when it is asked for help."""
    return _table()["help"]


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
