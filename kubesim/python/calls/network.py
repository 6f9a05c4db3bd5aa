"""Sockets and names: what the socket module asks of the pod's network.

A call with ``until`` waits at most to that moment of the machine's clock: 0 means not at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from kubesim.network.fabric import Ends, joined
from kubesim.network.pods import PodNetwork
from kubesim.network.world import OutsideServer, host_at
from kubesim.python.calls.files import added, handle
from kubesim.python.calls.registry import GuestError, blocking, call
from kubesim.python.sockets import ANYWHERE, FIRST_PORT, LOOPBACK, PORTS, Listener, Socket
from kubesim.shell.errors import FileError, NetworkError
from kubesim.shell.machine import Process
from kubesim.shell.sockets import SYN_S
from kubesim.shell.sockets import resolve as addresses
from kubesim.streaming.pipe import Pipe

NO_NAME, AGAIN = (-2, "Name or service not known"), (-3, "Temporary failure in name resolution")
POLLIN, POLLOUT, POLLNVAL = 1, 4, 32
SECURE_PORTS = (443, 6443, 8443, 9443, 10250)
"""The ports at which the network's servers speak TLS."""
PLACE = "(_ssl.c:1006)"
T = TypeVar("T")


@blocking
async def resolve(process: Process, name: str) -> list[str]:
    """Return the addresses of a name."""
    try:
        return await addresses(process, name)
    except NetworkError as error:
        raise GuestError("socket.gaierror", *(AGAIN if error.kind == "again" else NO_NAME)) from error


def _network(process: Process) -> PodNetwork:
    found = process.machine.network
    if not isinstance(found, PodNetwork):
        raise FileError("ENETUNREACH")
    return found


def _socket(process: Process, fd: int) -> Socket:
    found = handle(process, fd)
    if not isinstance(found, Socket):
        raise FileError("ENOTSOCK")
    return found


async def _by(process: Process, until: float | None, work: Awaitable[T]) -> T:
    """Wait for something, until a moment."""
    await process.flush()
    process.machine.rested = True
    task = asyncio.ensure_future(work)
    clock = None
    try:
        if until == 0:
            await asyncio.sleep(0)
        elif until is None:
            return await task
        if not task.done() and until:
            clock = asyncio.ensure_future(process.sleep(max(until - process.machine.now(), 0.0)))
            await asyncio.wait({task, clock}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise FileError("EAGAIN") if until == 0 else GuestError("TimeoutError", "timed out")
    finally:
        task.cancel()
        if clock is not None:
            clock.cancel()


@call
async def socket(process: Process, stream: bool) -> int:
    """Make a socket of IPv4, for TCP or UDP; returns its descriptor."""
    return added(process, Socket(stream))


@blocking
async def connect(process: Process, fd: int, host: str, port: int, until: float | None) -> None:
    """Connect to an address."""
    found = _socket(process, fd)
    if found.stream and found.peer is not None:
        raise FileError("EISCONN")
    host = LOOPBACK if host == ANYWHERE else host
    own = host if host.startswith("127.") else process.machine.address
    local = (own, found.local[1] or FIRST_PORT + (process.pid * 64 + fd * 7 + port) % PORTS)
    if not found.stream:
        found.local, found.peer = local, (host, port)
        return
    try:
        found.server = await _by(process, None if until == 0 else until, _network(process).find(host, port))
    except NetworkError as error:
        if error.kind == "timeout":
            moment = process.machine.now() + SYN_S
            await _by(process, min(moment, until or moment), _sleep(process, SYN_S))
        raise
    found.connected(joined(found.server, process.machine.address)[0], local, (host, port))


async def _sleep(process: Process, seconds: float) -> None:
    await process.sleep(seconds)


@call
async def socketpair(process: Process) -> list[int]:
    """Return the descriptors of two sockets that are connected to each other."""
    pipes = Pipe(), Pipe()
    made = Socket(), Socket()
    for at, each in enumerate(made):
        each.connected(Ends(pipes[at], pipes[1 - at]), each.local, each.local)
    return [added(process, each) for each in made]


@blocking
async def recv(process: Process, fd: int, count: int, peek: bool, until: float | None) -> str:
    """Return what has arrived, as characters with the bytes' numbers."""
    found = _socket(process, fd)
    await _by(process, until, found.peek(1))
    return (await (found.peek if peek else found.read)(count)).decode("latin-1")


@blocking
async def send(process: Process, fd: int, data: str, until: float | None) -> int:
    """Send such characters, or the first of them; returns how many."""
    found = _socket(process, fd)
    await _by(process, until, found.room())
    await process.tick()
    return await found.send(data.encode("latin-1"))


@call
async def tls(process: Process, fd: int, name: str, verify: bool, named: bool, own: bool, public: bool) -> None:
    """Check the server of a connection: ``own`` and ``public`` are the authorities that are trusted."""
    found = _socket(process, fd)
    server, (host, port) = found.server, found.peer or ("", 0)
    if isinstance(server, Listener) or port not in SECURE_PORTS:
        raise GuestError("ssl.SSLError", 1, f"[SSL: WRONG_VERSION_NUMBER] wrong version number {PLACE}")
    outside = isinstance(server, OutsideServer)
    if not verify:
        return
    if not (public if outside else own):
        raise _unverified(
            "unable to get local issuer certificate" if outside or not own else "self-signed certificate"
        )
    known = host_at(host, name)
    if outside and named and (known is None or known.name != name):
        sort = "IP address" if name == host else "Hostname"
        raise _unverified(f"{sort} mismatch, certificate is not valid for '{name}'.")


def _unverified(why: str) -> GuestError:
    text = f"[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {why} {PLACE}"
    return GuestError("ssl.SSLCertVerificationError", 1, text)


@call
async def shutdown(process: Process, fd: int, how: int) -> None:
    """Shut down reading (0), writing (1) or both (2)."""
    _socket(process, fd).half(how != 1, how != 0)


@call
async def names(process: Process, fd: int) -> list[Any]:
    """Return a socket's own place, and its peer's."""
    found = _socket(process, fd)
    return [found.local, found.peer]


@call
async def bind(process: Process, fd: int, host: str, port: int) -> None:
    """Bind a socket to an address of the pod."""
    found = _socket(process, fd)
    if found.local[1]:
        raise FileError("EINVAL")
    if host not in (ANYWHERE, process.machine.address) and not host.startswith("127."):
        raise FileError("EADDRNOTAVAIL")
    taken = _network(process).ports() if found.stream else []
    if port in taken:
        raise FileError("EADDRINUSE")
    chosen = port or next(n for n in range(FIRST_PORT + process.pid % PORTS, 65536) if n not in taken)
    found.local = (host, chosen)


@call
async def listen(process: Process, fd: int) -> None:
    """Open the port of a socket."""
    found, network = _socket(process, fd), _network(process)
    if found.listener is not None:
        return
    if not found.local[1]:
        await bind(process, fd, ANYWHERE, 0)
    if found.local[1] in network.ports():
        raise FileError("EADDRINUSE")
    found.listener = Listener(network, process.machine.address, found.local)


@blocking
async def accept(process: Process, fd: int, until: float | None) -> list[Any]:
    """Return the descriptor of the next connection, and where it comes from."""
    found = _socket(process, fd)
    if found.listener is None:
        raise FileError("EINVAL")
    await _by(process, until, found.listener.arrived())
    made = Socket()
    number = added(process, made)
    ends, source = found.listener.waiting.popleft()
    made.connected(ends, (process.machine.address, found.local[1]), (source, FIRST_PORT + id(ends) // 64 % PORTS))
    return [number, made.peer]


@blocking
async def poll(process: Process, wanted: list[list[int]], until: float | None) -> list[list[int]]:
    """Wait until one of some descriptors can be read (1) or written (4); returns those with what they can."""
    waits = [(fd, sort, asyncio.ensure_future(_ready(process, fd, sort))) for fd, sort in _sorts(wanted)]
    try:
        if waits and until != 0:
            some = asyncio.wait([task for *_, task in waits], return_when=asyncio.FIRST_COMPLETED)
            await _by(process, until, some)
        else:
            await asyncio.sleep(0)
    except GuestError:
        return []
    finally:
        found: dict[int, int] = {}
        for fd, sort, task in waits:
            if task.done():
                found[fd] = found.get(fd, 0) | (sort if task.result() else POLLNVAL)
            task.cancel()
    return [[fd, events] for fd, events in found.items()]


def _sorts(wanted: list[list[int]]) -> list[tuple[int, int]]:
    return [(fd, sort) for fd, events in wanted for sort in (POLLIN, POLLOUT) if events & sort]


async def _ready(process: Process, fd: int, sort: int) -> bool:
    """Wait until a descriptor is ready; False for one that is not open. Only sockets may have no room."""
    found = process.fds.get(fd)
    if found is not None and sort == POLLIN:
        listener = found.listener if isinstance(found, Socket) else None
        await (found.arrived() if listener is None else listener.arrived())
    elif isinstance(found, Socket):
        await found.room()
    return found is not None
