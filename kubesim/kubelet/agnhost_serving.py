"""How the subcommands of ``agnhost`` serve: handlers by path, until a signal comes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from kubesim.network.fabric import HttpServer, Request, Response
from kubesim.network.pods import PodNetwork
from kubesim.shell.machine import Process
from kubesim.times import nano

SIGNALLED = 2  # how a Go program ends that is told to
Handler = Callable[[Request], Awaitable[Response]]


async def signalled(process: Process, *names: str) -> str:
    """Return the first of these signals that comes."""
    came: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def take(name: str) -> None:
        if not came.done():
            came.set_result(name)

    process.handlers |= dict.fromkeys(names, take)
    return await came


class Handlers(HttpServer):
    """A server whose paths are answered by functions; each request is logged by its process."""

    def __init__(self, process: Process, paths: dict[str, Handler], *, log: bool = True) -> None:
        self._process = process
        self._paths = paths
        self._log = log

    async def respond(self, request: Request) -> Response:
        """Answer a request."""
        handler = self._paths.get(request.path) or self._paths.get("/")
        if self._log:
            stamp = nano(self._process.machine.clock.now())[:19].replace("-", "/").replace("T", " ")
            await self._process.error(f"{stamp} {request.method} {request.target}\n")
        return await handler(request) if handler else Response(404, b"404 page not found\n")


async def serve(process: Process, ports: Mapping[int, HttpServer], code: int = SIGNALLED) -> int:
    """Listen until told to stop."""
    network = process.machine.network
    if isinstance(network, PodNetwork):
        for port, server in ports.items():
            network.listen(port, server)
    try:
        await process.flush()
        await signalled(process, "TERM", "INT")
        return code
    finally:
        if isinstance(network, PodNetwork):
            for port, server in ports.items():
                network.close(port, server)


def text(body: str, code: int = 200) -> Response:
    """Return a plain answer."""
    return Response(code, body.encode())
