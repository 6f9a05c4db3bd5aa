"""The job of one mpirun: the port that its daemons report to, and at which its ranks find each other.

``world`` is MPI_Init of a rank: it follows the address in the rank's environment over the network, so whoever cannot
reach mpirun is no part of the job. ``gather`` is a collective of all ranks (MPI_Allgather, MPI_Barrier).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubesim.shell.errors import NetworkError
from kubesim.shell.machine import Process
from kubesim.shell.remote import Peer
from kubesim.shell.sockets import network

URI = "OMPI_MCA_orte_hnp_uri"
RANK, SIZE, LOCAL_RANK = "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"


@dataclass(frozen=True, slots=True)
class Loss:
    """The end of the first rank that has not ended well. ``signal``: by its name, where one has ended it."""

    rank: int
    pid: int
    node: str
    status: int
    signal: str = ""


@dataclass(eq=False)
class Meeting(Peer):
    """A port at which so many ranks find each other."""

    size: int
    _gathered: dict[str, tuple[dict[int, Any], asyncio.Event]] = field(default_factory=dict, kw_only=True)

    async def gather(self, name: str, rank: int, value: Any = None) -> list[Any]:
        """Return the values of all ranks, in their order, once every rank has come to the gathering of this name."""
        values, full = self._gathered.setdefault(name, ({}, asyncio.Event()))
        values[rank] = value
        if len(values) == self.size:
            del self._gathered[name]
            full.set()
        await full.wait()
        return [values[number] for number in sorted(values)]


@dataclass(eq=False)
class Job(Meeting):
    """A job while mpirun runs. ``output`` takes what a rank prints on descriptor 1 or 2."""

    family: int
    argv: list[str]
    env: Mapping[str, str]
    folder: str
    output: Callable[[int, int, bytes], Awaitable[None]]
    chosen_folder: bool = False
    """Set where ``folder`` was asked for by name: then it must exist."""
    here: dict[int, str] = field(default_factory=dict)
    """Number of each daemon that has reported -> the name of its host."""
    cores: dict[int, int] = field(default_factory=dict)
    addresses: dict[int, str] = field(default_factory=dict)
    ranks: dict[int, list[int]] = field(default_factory=dict)
    """Number of each daemon -> the ranks that it starts."""
    left: set[int] = field(default_factory=set)
    """The ranks that have not ended yet."""
    loss: Loss | None = None
    programs: list[tuple[int, list[str]]] = field(default_factory=list)
    """The number of processes and the words of each application, where there are several."""
    refusal: str = ""
    """The message for a rank that could not be started at all."""
    mapped: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    changed: Callable[[], None] = lambda: None
    """Called when a daemon has reported, and when the job is over."""

    def report(self, number: int, process: Process) -> None:
        """Let a daemon say that it is there."""
        self.here[number] = process.machine.hostname
        self.cores[number] = max(process.machine.cpus // 2, 1)
        self.addresses[number] = process.machine.address
        self.changed()

    def start(self, ranks: Mapping[int, list[int]]) -> None:
        """Let the daemons start their ranks."""
        self.ranks, self.size = dict(ranks), sum(map(len, ranks.values()))
        self.left = set(range(self.size))
        self.mapped.set()

    def refuse(self, message: str) -> None:
        """End the job because a rank cannot be started."""
        self.refusal = self.refusal or message
        self.end()

    def ended(self, loss: Loss) -> None:
        """Note how a rank has ended: the first that has not ended well ends all."""
        self.left.discard(loss.rank)
        if loss.status and self.loss is None and not self.over.is_set():
            self.loss = loss
        if loss.status or not self.left:
            self.end()

    def end(self) -> None:
        """Let every daemon kill its ranks."""
        self.over.set()
        self.changed()

    def program(self, rank: int) -> list[str]:
        """Return the command line of a rank."""
        for count, argv in self.programs:
            if rank < count:
                return argv
            rank -= count
        return self.argv


@dataclass(frozen=True, slots=True)
class World:
    """One rank's view of its job (MPI_COMM_WORLD); of a program that nobody has started with mpirun the only one."""

    rank: int
    size: int
    job: Job | None = None

    async def gather(self, name: str, value: Any = None) -> list[Any]:
        """Return the values of all ranks, once all have come."""
        return [value] if self.job is None else await self.job.gather(name, self.rank, value)


async def world(process: Process) -> World:
    """Return a process' place in its job. Raises ``NetworkError`` where mpirun cannot be reached."""
    if URI not in process.env:
        return World(0, 1)
    job, rank = await find(process, process.env[URI]), process.env.get(RANK, "")
    if not rank.isdecimal() or len(rank) > 6 or int(rank) >= job.size:
        raise NetworkError("refused")
    return World(int(rank), job.size, job)


async def environment(process: Process) -> dict[str, str]:
    """Return what PyTorch wants to know of a process' place, where mpirun has started it and nobody else has said it.

    Raises ``NetworkError`` as ``world``.
    """
    here = await world(process)
    if here.job is None:
        return {}
    first = next(number for number, ranks in here.job.ranks.items() if 0 in ranks)
    found = {"RANK": str(here.rank), "WORLD_SIZE": str(here.size), "LOCAL_RANK": process.env.get(LOCAL_RANK, "0")}
    found |= {"MASTER_ADDR": here.job.addresses[first], "MASTER_PORT": "29500"}
    return {name: process.env.get(name, value) for name, value in found.items()}


async def find(process: Process, uri: str) -> Job:
    """Return the job at an address such as ``2817262592.0;tcp://10.0.0.5:41235``. Raises ``NetworkError``."""
    host, _, port = uri.rpartition("/")[2].partition(":")
    found = await network(process).find(host, int(port) if port.isdecimal() and len(port) < 6 else 0)
    if not isinstance(found, Job):
        raise NetworkError("refused")
    return found
