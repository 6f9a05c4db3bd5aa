"""Handlers by path, as the subcommands of ``agnhost`` serve them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kubesim.network.fabric import HttpServer, Request, Response
from kubesim.shell.machine import Process
from kubesim.times import nano

Handler = Callable[[Request], Awaitable[Response]]


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


def text(body: str, code: int = 200) -> Response:
    """Return a plain answer."""
    return Response(code, body.encode())
