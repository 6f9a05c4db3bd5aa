"""``kubesim nodes``: join a cluster until a signal ends it, or remove what a killed one has left."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from kubesim import garbage
from kubesim.clock import Clock, RealClock
from kubesim.errors import ApiError
from kubesim.informer import cancel
from kubesim.listener import Listener
from kubesim.nodes import access
from kubesim.nodes.access import Access, AccessError
from kubesim.nodes.account import Group
from kubesim.nodes.joined import Joined, JoinError, Place, remove
from kubesim.nodes.registration import Taken, Wanted
from kubesim.pools import Pool
from kubesim.serve import Address, ServeError, listen, stop_signal

LAST_PORT = 65535


class NodesError(ServeError):
    """The nodes cannot join or leave; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says. Without ``kubeconfig``, the account of the pod that we run in."""

    group: str
    pools: tuple[Pool, ...]
    kubeconfig: Path | None = None
    context: str = ""
    tainted: bool = True
    address: str = ""
    bind: str = ""
    port: int = 0
    images: tuple[str, ...] = ()
    guide: int = 0
    """The port of this machine at which the fault injection API of the user guide is; 0 for none."""

    @property
    def count(self) -> int:
        """The number of nodes."""
        return sum(pool.count for pool in self.pools)


async def run(options: Options) -> None:
    """Join, serve until SIGTERM or SIGINT, leave. Raises NodesError."""
    stop, clock = stop_signal(), RealClock()
    garbage.spare_the_old()
    try:
        way = await _way(options, clock)
        with ExitStack() as stack:
            await _serve(options, way, clock, stop, stack)
    except (AccessError, JoinError, Taken, ServeError) as error:
        raise NodesError(str(error)) from error
    except (ApiError, ConnectionError) as error:
        raise NodesError(f"the cluster refused: {error}") from error


async def leave(options: Options) -> None:
    """Remove what a killed run of a group has left. Raises NodesError."""
    clock = RealClock()
    try:
        names = await remove(await _way(options, clock), Group(options.group), clock)
    except (AccessError, ApiError, ConnectionError) as error:
        raise NodesError(f"not everything could be removed: {error}") from error
    print(f"removed {len(names)} nodes of the group {options.group}", flush=True)


async def _way(options: Options, clock: Clock) -> Access:
    if options.kubeconfig is None:
        return access.in_cluster(clock)
    return await access.load(options.kubeconfig, clock, options.context)


async def _serve(options: Options, way: Access, clock: Clock, stop: asyncio.Event, stack: ExitStack) -> None:
    address = options.address or _reachable(way.server)
    sockets = [_listen(options, address, number) for number in range(options.count)]
    for found in sockets:
        stack.callback(found.close)
    wanted = Wanted(Group(options.group), options.pools, address, options.tainted, options.images)
    joined = Joined(way, wanted, Place(sockets), clock, own=options.kubeconfig is not None)
    joined.fabric.guide = f"127.0.0.1:{options.guide}" if options.guide else ""
    try:
        if await _started(joined, stop):
            print(f"{len(sockets)} nodes of the group {options.group} have joined {way.server}", flush=True)
            await _first(stop, joined.lost)
    finally:
        await joined.stop()
    if joined.lost.is_set():
        raise NodesError("all nodes were removed by somebody else; start again to join anew")


def _listen(options: Options, address: str, number: int) -> Listener:
    port = options.port + number if options.port else 0
    if port > LAST_PORT:
        raise ServeError(f"there are not {options.count} ports from {options.port} on; choose another with --port")
    return listen(Address(options.bind or address, port))


def _reachable(server: str) -> str:
    """Return our own address on the way to a server. Raises AccessError where there is no way."""
    parts = urlsplit(server)
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            parts.hostname, parts.port or 443, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise AccessError(f"{server}: {error.strerror}; is it the cluster's address?") from error


async def _started(joined: Joined, stop: asyncio.Event) -> bool:
    """Join; False where we are told to end before that is done."""
    joining = asyncio.ensure_future(joined.start())
    told = asyncio.ensure_future(stop.wait())
    await asyncio.wait([joining, told], return_when=asyncio.FIRST_COMPLETED)
    told.cancel()
    await asyncio.gather(told, return_exceptions=True)
    if joining.done():
        await joining
        return True
    await cancel(joining)
    return False


async def _first(*events: asyncio.Event) -> None:
    """Return when one of these is set."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
