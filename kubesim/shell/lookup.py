"""Names of hosts: what a name server answers, and how resolv.conf leads to it in the order of the C library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kubesim.shell.errors import NetworkError

MOST_SEARCHES = 32


@dataclass(frozen=True, slots=True)
class Record:
    """A resource record; ``name`` and names in ``value`` are absolute, without the last dot."""

    name: str
    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a name server says: records, none of this type (``exists``), or that there is no such name."""

    name: str
    records: tuple[Record, ...] = ()
    exists: bool = True

    @property
    def addresses(self) -> list[str]:
        """The addresses among the records."""
        return [record.value for record in self.records if record.kind == "A"]


Ask = Callable[[str, str], Awaitable[Answer]]
"""Asks the name server for an absolute name and a record type. Raises ``NetworkError`` where it cannot be reached."""


@dataclass(frozen=True, slots=True)
class ResolvConf:
    """resolv.conf(5): whom to ask, and how short names are completed."""

    servers: tuple[str, ...] = ("127.0.0.1",)
    searches: tuple[str, ...] = ()
    ndots: int = 1

    def candidates(self, name: str) -> list[str]:
        """Return the absolute names that a name may stand for, in the order in which they are tried."""
        if name.endswith("."):
            return [name[:-1]]
        searched = [f"{name}.{domain}" for domain in self.searches]
        return [name, *searched] if name.count(".") >= self.ndots else [*searched, name]


def parse(text: str) -> ResolvConf:
    """Read a resolv.conf; what is not understood is passed over, as the C library does."""
    servers: list[str] = []
    searches: tuple[str, ...] = ()
    ndots = 1
    for line in text.splitlines():
        match line.split():
            case ["nameserver", address, *_]:
                servers.append(address)
            case ["search" | "domain", *domains]:
                searches = tuple(domain.rstrip(".") for domain in domains[:MOST_SEARCHES])
            case ["options", *options]:
                given = [option[6:] for option in options if option.startswith("ndots:")]
                ndots = int(given[-1]) if given and given[-1].isdecimal() else ndots
    return ResolvConf(tuple(servers[:3]) or ("127.0.0.1",), searches, ndots)


async def search(name: str, config: ResolvConf, ask: Ask, kind: str = "A") -> Answer:
    """Return the first answer with records for a name; raises NetworkError "nxdomain" where none has any."""
    for candidate in config.candidates(name):
        answer = await ask(candidate, kind)
        if answer.records:
            return answer
    raise NetworkError("nxdomain")
