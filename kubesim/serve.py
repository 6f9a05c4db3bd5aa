"""The server of one cluster at the URL root, and what it has in common with a host of many."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import signal
import socket
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from aiohttp import web

from kubesim import garbage, kubeconfig
from kubesim.api.answers import tell
from kubesim.api.bodies import MAX_BODY
from kubesim.changelog import ChangeLog, Saver
from kubesim.clock import Clock, RealClock
from kubesim.cluster import Cluster, ClusterSpec
from kubesim.clusterfile import ClusterFile
from kubesim.garbage import Sweeper
from kubesim.kubeconfig import server_url
from kubesim.listener import Listener, close
from kubesim.malformed_http import Runner
from kubesim.pki import CertificateAuthority

GRACE_SECONDS = 1.0
MAX_LINGER_S = 0.5
"""For reading on from a body that was refused, so that its sender gets to see the answer."""
MAX_LINE = 64 * 1024
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ServeError(Exception):
    """The server cannot start; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, and the name under which clients reach it."""

    bind: str = "127.0.0.1"
    port: int = 0
    public_host: str = ""

    @property
    def host(self) -> str:
        """Return the host in addresses and in the certificate."""
        return self.public_host or self.bind


def listen(address: Address) -> Listener:
    """Return a bound socket (port 0: a free one); raises ServeError when the port is taken."""
    family = socket.AF_INET6 if ":" in address.bind else socket.AF_INET
    found = Listener(family)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((address.bind, address.port))
    except OSError as error:
        found.close()
        option = "--port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--bind"
        where = f"{address.bind} port {address.port}"
        raise ServeError(f"cannot listen on {where}: {error.strerror}; choose another with {option}") from error
    return found


@contextmanager
def taken(folder: Path, patience_s: float = 0.0) -> Iterator[None]:
    """Have a data folder for ourselves while the block lasts; raises ServeError where another program has it."""
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + patience_s
    with (folder / "lock").open("a") as file:
        while not _locked(file):
            if time.monotonic() >= end:
                message = f"{folder} is in use by another kubesim; stop it, or choose another folder with --data"
                raise ServeError(message)
            time.sleep(0.05)
        yield


def _locked(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def tls_context(authority: CertificateAuthority, host: str, clock: Clock) -> ssl.SSLContext:
    """Return a TLS context with a fresh certificate for ``host`` alone."""
    with tempfile.TemporaryDirectory(prefix="kubesim-") as folder:
        return authority.issue_server([host], clock.now()).context(Path(folder), authority.pem)


@asynccontextmanager
async def listening(
    handler: Handler, sock: Listener, context: ssl.SSLContext | None, kind: type[Runner] = Runner
) -> AsyncIterator[None]:
    """Serve ``handler`` on a socket until the block ends."""
    app = web.Application(client_max_size=MAX_BODY)
    app.router.add_route("*", r"/{path:[\s\S]*}", handler)
    app.on_response_prepare.append(tell)
    runner = kind(
        app,
        access_log=None,
        handler_cancellation=True,
        max_line_size=MAX_LINE,
        max_field_size=MAX_LINE,
        shutdown_timeout=GRACE_SECONDS,
        lingering_time=MAX_LINGER_S,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, sock, ssl_context=context, backlog=1024).start()
        yield
    finally:
        await close(runner, sock)


@asynccontextmanager
async def single(
    spec: ClusterSpec, address: Address, clock: Clock, data: Path | None = None, content: ClusterFile | None = None
) -> AsyncIterator[Cluster]:
    """Run one cluster at the URL root; with ``data`` it is kept there and restored from there.

    ``content`` is what a fresh one has beside what ``spec`` says; a restored one has had it.
    """
    sock = listen(address)
    async with AsyncExitStack() as stack:
        stack.callback(sock.close)
        if data:
            stack.enter_context(taken(data))
        authority = CertificateAuthority.at(data, clock.now()) if data else CertificateAuthority.create(clock.now())
        server = server_url(address.host, sock.getsockname()[1])
        file = ChangeLog(data / "cluster") if data else None
        saved = file.load() if file else None
        cluster = (
            await Cluster.restore(saved, clock, server, authority)
            if saved
            else await Cluster.create(spec, clock, server, authority, content, keep=file is not None)
        )
        if file:
            saver = Saver(file, cluster.changes, clock)
            await saver.start()
            stack.push_async_callback(saver.stop)
        stack.push_async_callback(cluster.stop)
        cluster.let_out()
        await stack.enter_async_context(reachable(cluster, sock, tls_context(authority, address.host, clock)))
        stack.callback(Sweeper(clock).stop)
        yield cluster


@asynccontextmanager
async def reachable(cluster: Cluster, sock: Listener, context: ssl.SSLContext) -> AsyncIterator[None]:
    """Serve one cluster at the URL root until the block ends."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await cluster.api.handle(request, request.path)

    async with listening(handle, sock, context):
        try:
            yield
        finally:
            cluster.guard.stop()


async def run_single(
    spec_of: Callable[[Clock], ClusterSpec],
    address: Address,
    file: Path,
    data: Path | None = None,
    content: ClusterFile | None = None,
    *,
    speed: float = 1.0,
) -> None:
    """``kubesim serve``: run until SIGTERM or SIGINT; the kubeconfig is written when everything is ready."""
    stop, clock = stop_signal(), RealClock(speed)
    garbage.spare_the_old()
    if file.is_dir():
        raise ServeError(f"{file} is a folder; give a file name with --kubeconfig")
    async with single(spec_of(clock), address, clock, data, content) as cluster:
        kubeconfig.write(file, cluster.admin_kubeconfig())
        print(f"cluster {cluster.spec.name} is ready at {cluster.server}; export KUBECONFIG={file}", flush=True)
        await stop.wait()


def stop_signal() -> asyncio.Event:
    """Return what SIGTERM, SIGINT and SIGHUP set; from now on they end the program in good order."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # which is nohup's work
            loop.add_signal_handler(number, done.set)
    return done
