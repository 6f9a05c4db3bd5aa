"""``kubesim host``: the warmed parent, its front, and a process for each cluster."""

from __future__ import annotations

import asyncio
import gc
import hmac
import pkgutil
import shutil
import socket
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path

import uvloop
from aiohttp import web

import kubesim
from kubesim import cluster_process, clusterfile, image, sharing
from kubesim.api.answers import json_response, tell
from kubesim.cel.program import compiled
from kubesim.clock import RealClock
from kubesim.control import Control, control_token
from kubesim.errors import Obj
from kubesim.forkserver import ForkServer, give_memory_back
from kubesim.front import Front, token_of
from kubesim.host import Host
from kubesim.image import Image
from kubesim.kubeconfig import server_url
from kubesim.listener import Listener, close
from kubesim.malformed_http import Runner
from kubesim.pki import CertificateAuthority
from kubesim.processes import Processes
from kubesim.serve import Address, listen, taken, tls_context

MAX_BODY = 1 << 20
MAX_MESSAGE = 4 << 20
PATIENCE_S = 5.0
"""For the processes of a killed host, which go by themselves, to let go of its folder."""
STANDARD: Obj = {
    "nodes": 3,
    "gpus": 8,
    "addons": ["coredns", "kube-proxy", "metrics-server", "gpu-operator", "monitoring"],
}
PLAIN: Obj = {**STANDARD, "addons": []}
USUAL = (STANDARD, PLAIN)
"""The two usual kinds of cluster: an image is kept of one of each. Others take one of themselves."""
WORKLOAD = Path(__file__).with_name("first_workload.yaml")
ELSEWHERE = frozenset({"tests", "__main__", "command"})
"""Parts of the names of modules that no cluster's process needs."""


def run_host(address: Address, data: Path, *, guide: bool = False) -> int:
    """Run until SIGTERM or SIGINT; returns the exit status."""
    with listen(address) as sock, taken(data, PATIENCE_S), tempfile.TemporaryDirectory(prefix="kubesim-") as folder:
        _note_sockets(data / "sockets", Path(folder))
        authority = CertificateAuthority.at(data, datetime.now(UTC))
        control_token(data)
        give_memory_back()
        images: list[Image] = []
        chores = _chores(authority, images)
        if any(data.glob("clusters/*/changes*.log")):
            while USUAL and not images:  # what is brought back at once shares what it computes first
                next(chores)
        ours, fronts = socket.socketpair()
        run = partial(cluster_process.run, authority, images)
        server = ForkServer(ours, Path(folder), run, chores)
        front = partial(_front, fronts, sock, address, data, Path(folder), authority, guide)
        return server.serve(partial(_run_front, front), fronts, sock)


def _note_sockets(link: Path, folder: Path) -> None:
    """Note where the sockets are, whose paths have to be short; those of a killed host are removed."""
    with suppress(OSError):
        shutil.rmtree(link.readlink(), ignore_errors=True)
    link.unlink(missing_ok=True)
    link.symlink_to(folder)


def _chores(authority: CertificateAuthority, images: list[Image]) -> Iterator[object]:
    """Take images of clusters, which computes what every cluster computes first, and read all modules.

    The cluster of a later image then runs a workload: forks need not compute either what their first one takes.
    """
    for asked in USUAL[:1]:
        yield from _take(image.take(asked, authority, images))
    yield from _read_modules()
    for asked in USUAL[1:]:
        yield from _take(image.take(asked, authority, images, clusterfile.read(WORKLOAD)))


def _take(steps: Iterator[object]) -> Iterator[object]:
    """Take an image, and forget nothing of what it shares."""
    yield from steps
    sharing.keep()
    yield gc.collect()


def _read_modules() -> Iterator[object]:
    """Read one module after another that is otherwise read when it is first needed."""
    for found in pkgutil.walk_packages(kubesim.__path__, "kubesim."):
        if ELSEWHERE.isdisjoint(found.name.split(".")):
            yield import_module(found.name)
    import_module("concurrent.futures.thread")  # asyncio.to_thread's
    yield compiled("true")  # reads the parser's package, whose command line costs every fork 0.1 s otherwise
    gc.collect()


def _run_front(front: Callable[[], Coroutine[object, object, None]]) -> None:
    gc.enable()
    uvloop.run(front())  # half of what asyncio takes to end TLS, and the front does little else


async def _front(
    channel: socket.socket,
    sock: Listener,
    address: Address,
    data: Path,
    folder: Path,
    authority: CertificateAuthority,
    guide: bool,
) -> None:
    """Route connections to clusters until the fork server says stop, or is gone."""
    clock, stop = RealClock(), asyncio.Event()
    url = server_url(address.host, sock.getsockname()[1])
    token = control_token(data)
    processes = Processes(folder)
    reader, writer = await asyncio.open_connection(sock=channel, limit=MAX_MESSAGE)
    host = Host(data, clock, processes, url)

    def end() -> None:
        host.stopping = True
        stop.set()

    processes.on_stop = end
    await processes.connect(reader, writer)
    control = Control(host, authority.pem.decode(), guide=guide)
    async with AsyncExitStack() as stack:
        runner = _runner(control, token.encode())
        await runner.setup()
        stack.push_async_callback(close, runner, sock)
        stack.push_async_callback(host.stop)
        await host.start()
        assert runner.server is not None
        front = Front(host, sock, runner.server, token)
        front.start(tls_context(authority, address.host, clock))
        stack.callback(front.stop)
        count = len(host.clusters)
        print(f"kubesim host is ready at {url} ({count} clusters; token in {data}/control-token)", flush=True)
        await stop.wait()


def _runner(control: Control, token: bytes) -> web.AppRunner:
    """Return what serves the control API on connections that it is given; only a new one leads to a cluster."""

    async def handle(request: web.Request) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        known = hmac.compare_digest(token_of(b"\r\nauthorization:" + given), token)
        if known and request.path.startswith("/control"):
            return await control.handle(request, request.path.split("/")[2:])
        response = json_response({"error": "This connection belongs to the control API; open another one."}, 421)
        response.force_close()
        return response

    app = web.Application(client_max_size=MAX_BODY)
    app.router.add_route("*", r"/{path:[\s\S]*}", handle)
    app.on_response_prepare.append(tell)
    return Runner(app, access_log=None, max_line_size=65536, max_field_size=65536)
