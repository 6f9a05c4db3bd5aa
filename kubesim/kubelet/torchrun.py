"""The processes that a program starts beside itself, and torchrun, which starts one for each rank of a script.

The ranks find each other by their environment (``MASTER_ADDR``, ``RANK``), as ``torch.distributed`` reads it. Source:
torch/distributed/run.py (2.7).
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubesim.clock import first
from kubesim.gpu import collectives
from kubesim.gpu.collectives import CHILD_PID, is_launcher, membership, processes, script_at
from kubesim.shell.handles import Handle, Outside
from kubesim.shell.machine import Process
from kubesim.shell.signals import NUMBERS

MOST = 64
"""More ranks of one container are not shown."""
FIRST_NUMBER, NUMBERS_PER_S, HIGHEST_NUMBER = 4200, 2, 4_194_303
"""Below it are the node's own processes; how fast numbers are used up; the kernel's bound (pid_max)."""
SHIM, PAUSE = -2, -1
"""Stand for the shim and the first process of a pod, where others stand by their number in the container."""
PYTHON = "/usr/bin/python3"
SCRIPTS = frozenset({"torchrun", "vllm"})
"""Programs that Python interprets: the kernel puts it before their names."""


def shown(argv: Sequence[str]) -> tuple[str, ...]:
    """Return a command line as the kernel has it of a script with an interpreter."""
    name = argv[0].rpartition("/")[2] if argv else ""
    return (PYTHON, f"/usr/local/bin/{name}", *argv[1:]) if name in SCRIPTS else tuple(argv)


@dataclass(frozen=True, slots=True)
class Member:
    """One such process. ``device``: which of the container's GPUs it uses (None: all of them, -1: none).

    ``rank`` is its number among those that compute; -1 for one that does not.
    """

    pid: int
    parent: int
    argv: tuple[str, ...]
    device: int | None = -1
    env: tuple[tuple[str, str], ...] = ()
    rank: int = 0


def crew(argv: Sequence[str], env: Mapping[str, str], devices: int, parent: int = 1) -> tuple[Member, ...]:
    """Return what a command line starts: torchrun one process for each rank; nothing for most."""
    if not is_launcher(argv):
        return ()
    each, own = min(processes(argv, env, devices), MOST), membership(argv, env, devices)
    words = (PYTHON, "-u", *argv[script_at(argv) :])
    first = own.rank if own is not None else 0
    world = own.size * own.each if own is not None else each
    shared = {
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": each,
        "GROUP_RANK": max(own.place, 0) if own is not None else 0,
        "MASTER_ADDR": own.master if own is not None else "localhost",
        "MASTER_PORT": own.port if own is not None else 29500,
        "OMP_NUM_THREADS": env.get("OMP_NUM_THREADS", "1"),
        "TORCHELASTIC_RUN_ID": "none",
    }
    found = []
    for local in range(each):
        named = {**shared, "RANK": max(first, 0) + local, "LOCAL_RANK": local}
        device = local if local < devices else -1
        more = tuple((name, str(value)) for name, value in named.items())
        found.append(Member(parent + CHILD_PID - 1 + local, parent, words, device, more, max(first, 0) + local))
    return tuple(found)


class Numbers:
    """Numbers that a node has given to its processes: ascending with time, and the same whenever somebody looks."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, int], int] = {}

    def of(self, key: str, inner: int, at: datetime) -> int:
        """Return the number of process ``inner`` of a container (its id) or pod (its uid) that started at ``at``."""
        if (key, inner) not in self._given:
            taken, room = {*self._given.values()}, HIGHEST_NUMBER - FIRST_NUMBER
            wanted = int(at.timestamp() * NUMBERS_PER_S) + zlib.crc32(key.encode()) % 32 + inner
            while FIRST_NUMBER + wanted % room in taken:
                wanted += 1
            self._given[key, inner] = FIRST_NUMBER + wanted % room
        return self._given[key, inner]

    def keep(self, keys: Iterable[str]) -> None:
        """Forget everything but these containers and pods."""
        known = {*keys}
        self._given = {key: number for key, number in self._given.items() if key[0] in known}


KILL_S = 30.0
"""Between SIGTERM and SIGKILL, when the ranks are ended (death_timeout)."""
STARS = "*" * 41
THREADS = (
    "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being "
    "overloaded, please further tune the variable for optimal performance in your application as needed. "
)
USAGE = "usage: torchrun [-h] [--nnodes NNODES] [--nproc-per-node NPROC_PER_NODE] ... training_script ...\ntorchrun: "
MISSING = "error: the following arguments are required: training_script, training_script_args\n"
STOPPED = "torch.distributed.elastic.multiprocessing.api.SignalException: Process {} got signal: {}\n"


class Tee:
    """Passes on a rank's output with the rank before each line (``--tee``)."""

    def __init__(self, handle: Handle, local: int) -> None:
        self._handle, self._tag, self._fresh = handle, f"[default{local}]:".encode(), True

    async def write(self, data: bytes) -> None:
        """Take output."""
        body = data[:-1].replace(b"\n", b"\n" + self._tag) + data[-1:]
        tag, self._fresh = self._tag * self._fresh, data.endswith(b"\n")
        await self._handle.write(tag + body)


async def torchrun(process: Process, members: Sequence[Member]) -> int:
    """Run the ranks to their ends, as often as ``--max_restarts`` lets them fail."""
    if not members or not members[0].argv[2:]:
        await process.error(USAGE + MISSING)
        return 2
    if len(members) > 1 and "OMP_NUM_THREADS" not in process.env:
        for text in ("", STARS, THREADS, STARS):
            await _warn(process, "run.py:793", text)
    options = collectives.options(process.argv)
    attempts = options.get("max_restarts") or process.env.get("PET_MAX_RESTARTS", "0")
    left = int(attempts) if attempts.isdecimal() else 0
    while True:
        running = [_start(process, member, options.get("tee") or options.get("t", "0")) for member in members]
        lost, stopped = await _follow(process, running)
        if stopped:
            await process.error(STOPPED.format(process.pid, NUMBERS[stopped]))
            return 1
        if lost is None:
            return 0
        if not left:
            return await _fail(process, members[lost], running[lost])
        text = f"[default] Worker group FAILED. {left}/{attempts} attempts left; will restart worker group"
        await _warn(process, "elastic/agent/server/api.py:914", text)
        left -= 1


async def _warn(process: Process, place: str, text: str) -> None:
    at = process.machine.clock.now()
    await process.error(f"W{at:%m%d %H:%M:%S.%f} {process.pid} torch/distributed/{place}] {text}\n")


def _start(process: Process, member: Member, tee: str) -> Process:
    env = {**process.env, **dict(member.env)}
    shared: dict[int, Handle] = {fd: process.fds[fd] for fd in (0, 1, 2) if fd in process.fds}
    chosen = [fd for fd in (1, 2) if tee in (str(fd), "3")]
    tagged: dict[int, Handle] = {fd: Outside(writer=Tee(shared[fd], _local(member))) for fd in chosen}
    return process.run(["python3", *member.argv[1:]], env=env, fds={**shared, **tagged})


def _local(member: Member) -> int:
    return int(dict(member.env)["LOCAL_RANK"])


async def _follow(process: Process, running: Sequence[Process]) -> tuple[int | None, str]:
    """Wait for the ranks; returns the first that has failed, and the signal that torchrun itself has got."""
    stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(each.wait()) for each in running]

    def take(name: str) -> None:
        if not stop.done():
            stop.set_result(name)

    process.handlers |= dict.fromkeys(("TERM", "INT"), take)
    try:
        while left := [wait for wait in waits if not wait.done()]:
            await asyncio.wait([*left, stop], return_when=asyncio.FIRST_COMPLETED)
            if stop.done() or any(each.status for each in running):
                break
        lost = next((at for at, each in enumerate(running) if each.status), None)
        await _end(process, [each for each in running if each.status is None])
    finally:
        for each in running:
            each.signal("KILL")
        for wait in waits:
            wait.cancel()
    return lost, stop.result() if stop.done() else ""


async def _end(process: Process, running: Sequence[Process]) -> None:
    """Let the other ranks end."""
    for each in running:
        text = f"Sending process {each.pid} closing signal SIGTERM"
        await _warn(process, "elastic/multiprocessing/api.py:897", text)
        each.signal("TERM")
    await first(asyncio.gather(*(each.wait() for each in running)), process.machine.clock.sleep(KILL_S))


async def _fail(process: Process, member: Member, lost: Process) -> int:
    """Say which rank has failed first, and how (ChildFailedError)."""
    signal, status = NUMBERS.get(lost.fatal, 0), lost.status or 0
    script, machine = member.argv[2].rpartition("/")[2], process.machine
    where = (_local(member), member.rank, lost.pid)
    text = collectives.ended(*where, signal, script, machine.hostname, machine.clock.now(), status)
    await process.error(text + "\n")
    return 1
