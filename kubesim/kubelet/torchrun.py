"""torchrun on a script that somebody has written: one process for each rank. Source: torch/distributed/run.py (2.7).

The ranks find each other by their environment (``MASTER_ADDR``, ``RANK``), as ``torch.distributed`` reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from kubesim.gpu import collectives
from kubesim.kubelet.crew import Member
from kubesim.shell.handles import Handle, Outside
from kubesim.shell.machine import Process
from kubesim.shell.signals import NUMBERS

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
    waits: list[asyncio.Future[Any]] = [
        asyncio.gather(*(each.wait() for each in running)),
        asyncio.ensure_future(process.machine.clock.sleep(KILL_S)),
    ]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


async def _fail(process: Process, member: Member, lost: Process) -> int:
    """Say which rank has failed first, and how (ChildFailedError)."""
    signal, status = NUMBERS.get(lost.fatal, 0), lost.status or 0
    script, machine = member.argv[2].rpartition("/")[2], process.machine
    where = (_local(member), member.rank, lost.pid)
    text = collectives.ended(*where, signal, script, machine.hostname, machine.clock.now(), status)
    await process.error(text + "\n")
    return 1
