"""Process groups of torch.distributed: ranks find each other at the master's port, and exchange values there."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from kubesim.mpi.job import Meeting
from kubesim.python.calls.registry import GuestError, blocking, call
from kubesim.shell.errors import NetworkError
from kubesim.shell.machine import Process
from kubesim.shell.sockets import network

RETRY_S = 1.0
LATE = "The client socket has timed out after {ms}ms while trying to connect to ({host}, {port})."
_places: WeakKeyDictionary[Process, tuple[Meeting, int]] = WeakKeyDictionary()
_hosted: WeakKeyDictionary[Process, tuple[int, Meeting]] = WeakKeyDictionary()


@blocking
async def join_group(process: Process, rank: int, size: int, host: str, port: int, until: float) -> None:
    """Meet the other ranks at the port of the master, which the first one opens."""
    if rank == 0 and process not in _hosted:
        hosted = port, Meeting(size)
        network(process).listen(*hosted)
        _hosted[process] = hosted
    while process not in _places:
        try:
            found = await network(process).find(host, port)
            if isinstance(found, Meeting) and found.size == size:
                _places[process] = found, rank
                break
        except NetworkError:
            pass
        if process.machine.now() >= until:
            text = LATE.format(ms=round((until - process.started.timestamp()) * 1000), host=host, port=port)
            raise GuestError("torch.distributed.DistNetworkError", text)
        await process.sleep(RETRY_S)
    await _places[process][0].gather("join", rank)


@blocking
async def exchange(process: Process, name: str, value: object) -> list[Any]:
    """Return the values of all ranks, once all have come to the exchange of this name."""
    if process not in _places:
        raise GuestError("RuntimeError", "Default process group has not been initialized")
    meeting, rank = _places[process]
    return await meeting.gather(name, rank, value)


@call
async def leave_group(process: Process) -> None:
    """Be no rank any more."""
    leave(process)


def leave(process: Process) -> None:
    """Close what a program has opened."""
    _places.pop(process, None)
    if (hosted := _hosted.pop(process, None)) is not None:
        network(process).close(*hosted)
