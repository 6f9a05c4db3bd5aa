"""``python -m http.server``: the files of a container over HTTP, with the lines that it writes for each request.

Source: https://docs.python.org/3/library/http.server.html and what Python 3.12 answers.
"""

from __future__ import annotations

import asyncio
import html
import mimetypes
import posixpath
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from urllib.parse import quote, unquote

from kubesim.network.fabric import HttpServer, Request, Response
from kubesim.network.pods import PodNetwork
from kubesim.shell.errors import FileError, NetworkError
from kubesim.shell.files import Directory, Link
from kubesim.shell.machine import Process
from kubesim.streaming.seam import Duplex

SIGNALLED = 2  # how a Go program ends that is told to


async def signalled(process: Process, *names: str) -> str:
    """Return the first of these signals that comes."""
    came: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def take(name: str) -> None:
        if not came.done():
            came.set_result(name)

    process.handlers |= dict.fromkeys(names, take)
    return await came


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


DEFAULT_PORT, EVERYWHERE = 8000, "0.0.0.0"  # noqa: S104 - an address of the simulated pod
USAGE = "usage: server.py [-h] [--cgi] [-b ADDRESS] [-d DIRECTORY] [-p VERSION] [port]\nserver.py: error: {error}\n"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
LISTING = (
    '<!DOCTYPE HTML>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n</head>\n'
    "<body>\n<h1>{title}</h1>\n<hr>\n<ul>\n{rows}</ul>\n<hr>\n</body>\n</html>\n"
)
INDEXES = ("index.html", "index.htm")


class Folder(HttpServer):
    """Serves what is below a folder as the process sees it now; one bound to the loopback hears only its own pod."""

    def __init__(self, process: Process, root: str, version: str, *, local: bool) -> None:
        self._process = process
        self._root = root
        self._server = f"SimpleHTTP/0.6 Python/{version}"
        self._local = local

    async def converse(self, connection: Duplex, source: str) -> None:
        """Serve a raw connection; one that comes from elsewhere to the loopback is closed."""
        if self._hears(source):
            await super().converse(connection, source)

    def _hears(self, source: str) -> bool:
        return not self._local or source in ("127.0.0.1", self._process.machine.address)

    async def respond(self, request: Request) -> Response:
        """Answer a request, and log it on standard error."""
        if not self._hears(request.source):
            raise NetworkError("refused")
        answer = self._answer(request)
        if isinstance(answer, HTTPStatus):
            words = "File not found" if answer == HTTPStatus.NOT_FOUND else f"Unsupported method ({request.method!r})"
            await self._log(request, f"code {answer.value}, message {words}")
            explain = answer.description
            values = {"code": answer.value, "message": words, "explain": explain}
            body = BaseHTTPRequestHandler.error_message_format % values
            answer = Response(answer.value, body.encode(), {"Content-Type": "text/html;charset=utf-8"})
        await self._log(request, f'"{request.method} {request.target} HTTP/1.1" {answer.status} -')
        date = self._process.machine.clock.now().strftime("%a, %d %b %Y %H:%M:%S GMT")
        return Response(answer.status, answer.body, {"Server": self._server, "Date": date, **answer.headers})

    async def _log(self, request: Request, text: str) -> None:
        stamp = self._process.machine.clock.now().strftime("%d/%b/%Y %H:%M:%S")
        await self._process.error(f"{request.source or '127.0.0.1'} - - [{stamp}] {text}\n")

    def _answer(self, request: Request) -> Response | HTTPStatus:
        """Return the file or the list of a folder that a path leads to, or what is wrong with the request."""
        if request.method not in ("GET", "HEAD"):
            return HTTPStatus.NOT_IMPLEMENTED
        asked = unquote(request.path)
        path = posixpath.join(self._root, posixpath.normpath("/" + asked).lstrip("/"))
        found = self._process.view.find(path)
        if isinstance(found, Directory):
            if not request.path.endswith("/"):
                return Response(301, b"", {"Location": request.path + "/"})
            names = [name for name in INDEXES if self._process.view.find(f"{path}/{name}") is not None]
            if not names:
                return self._listing(path, asked)
            path = f"{path}/{names[0]}"
        elif asked.endswith("/"):
            return HTTPStatus.NOT_FOUND
        try:
            data = self._process.view.read(path)
        except FileError:
            return HTTPStatus.NOT_FOUND
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        return Response(200, data, {"Content-Type": kind})

    def _listing(self, path: str, asked: str) -> Response | HTTPStatus:
        view, rows = self._process.view, ""
        try:
            names = sorted(view.directory(path).names(), key=str.lower)
        except FileError:
            return HTTPStatus.NOT_FOUND
        for name in names:
            whole = posixpath.join(path, name)
            link = name + "/" if isinstance(view.find(whole), Directory) else name
            shown = name + "@" if isinstance(view.find(whole, follow=False), Link) else link
            rows += f'<li><a href="{quote(link)}">{html.escape(shown, quote=False)}</a></li>\n'
        title = f"Directory listing for {html.escape(asked, quote=False)}"
        body = LISTING.format(title=title, rows=rows)
        return Response(200, body.encode("utf-8", "surrogateescape"), {"Content-Type": "text/html; charset=utf-8"})


async def http_server(process: Process, words: list[str], version: str, *, told: bool) -> int:
    """Serve until told to stop; ``told``: standard output is not buffered, so that its first line is seen."""
    port, options, rest = DEFAULT_PORT, {"bind": EVERYWHERE, "directory": process.cwd}, [*words]
    while rest:
        word = rest.pop(0)
        name, _, value = word.lstrip("-").partition("=")
        name = {"b": "bind", "d": "directory", "p": "protocol"}.get(name, name)
        if word.startswith("-") and name in ("bind", "directory", "protocol"):
            if not value and not rest:
                return await _wrong(process, f"argument {word}: expected one argument")
            options[name] = value or rest.pop(0)
        elif word.isdecimal() and int(word) <= 65535:
            port = int(word)
        elif not word.startswith("-"):
            return await _wrong(process, f"argument port: invalid int value: {word!r}")
        elif word != "--cgi":
            return await _wrong(process, f"unrecognized arguments: {word}")
    root = posixpath.join(process.cwd, options["directory"])
    if told:
        host = options["bind"]
        await process.write(f"Serving HTTP on {host} port {port} (http://{host}:{port}/) ...\n")
    return await serve(process, {port: Folder(process, root, version, local=options["bind"] in LOOPBACK)}, 0)


async def _wrong(process: Process, error: str) -> int:
    await process.error(USAGE.format(error=error))
    return 2
