"""kubectl proxy: the API server, and files, on a port of this container."""

from __future__ import annotations

import posixpath
import re
from typing import Any
from urllib.parse import unquote

from kubesim.network.fabric import Duplex, Request, Response
from kubesim.shell.errors import FileError, NetworkError
from kubesim.shell.files import Directory
from kubesim.shell.kubectl.client import Client, KubectlError
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.machine import Process

FOREVER_S = 3600.0
HOSTS, PATHS = r"^localhost$,^127\.0\.0\.1$,^\[::1\]$", "^.*"
NO_PATHS, NO_METHODS = "^/api/.*/pods/.*/exec,^/api/.*/pods/.*/attach", "^$"
HOP = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "authorization"}
PLAIN = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
UNFILTERED = "Request filter disabled, your proxy is vulnerable to XSRF attacks, please be cautious"


def _patterns(text: str) -> list[re.Pattern[str]]:
    try:
        return [re.compile(each) for each in text.split(",") if each]
    except re.error as error:
        raise KubectlError(f"error: Error compiling re: {error}", 255) from error


def _prefix(text: str) -> str:
    return text if text.endswith("/") else f"{text}/"


class Proxy:
    """Answers requests on the local port with what the API server answers."""

    def __init__(self, process: Process, client: Client, opts: Flags) -> None:
        self._process, self._client = process, client
        self._api, self._static = _prefix(opts.get("api-prefix", "/")), _prefix(opts.get("www-prefix", "/static/"))
        self._folder = opts.get("www")
        self._open = opts.on("disable-filter")
        self._hosts, self._paths = (
            _patterns(opts.get("accept-hosts", HOSTS)),
            _patterns(opts.get("accept-paths", PATHS)),
        )
        self._no_paths = _patterns(opts.get("reject-paths", NO_PATHS))
        self._no_methods = _patterns(opts.get("reject-methods", NO_METHODS))

    async def respond(self, request: Request) -> Response:
        """Answer one request."""
        path = request.target
        if self._folder and path.startswith(self._static) and len(self._static) >= len(self._api):
            return self._file(unquote(request.path.removeprefix(self._static)))
        if not path.startswith(self._api):
            return Response(404, b"404 page not found\n", PLAIN)
        if not self._api.startswith("/api"):
            path = "/" + path.removeprefix(self._api)
        if not (self._open or self._accepts(request, path.partition("?")[0])):
            return Response(403, b"Forbidden\n", PLAIN)
        headers = {name: value for name, value in request.headers.items() if name not in HOP}
        try:
            status, told, body = await self._client.kube.request(
                request.method, path, body=request.body, headers={**headers, **self._client.headers({})}
            )
        except NetworkError as error:
            text = self._client.unreachable(error).text.rpartition("server: ")[2]
            return Response(500, f"{text}\n".encode(), PLAIN)
        return Response(status, body, {name: value for name, value in told.items() if name.lower() not in HOP})

    def _accepts(self, request: Request, path: str) -> bool:
        host = re.sub(r":\d+$", "", request.headers.get("host", ""))
        if any(each.search(path) for each in self._no_paths):
            return False
        if any(each.search(request.method) for each in self._no_methods):
            return False
        return any(each.search(path) for each in self._paths) and any(each.search(host) for each in self._hosts)

    def _file(self, name: str) -> Response:
        view = self._process.view
        path = posixpath.join(self._folder, posixpath.normpath(f"/{name}").lstrip("/"))
        node = view.find(path)
        try:
            if isinstance(node, Directory) and view.find(f"{path}/index.html") is None:
                lines = [f"{each}/" if isinstance(node.get(each), Directory) else each for each in node.names()]
                text = "".join(f'<a href="{each}">{each}</a>\n' for each in sorted(lines))
                return Response(200, f"<pre>\n{text}</pre>\n".encode(), {"Content-Type": "text/html; charset=utf-8"})
            found = view.read(f"{path}/index.html" if isinstance(node, Directory) else path)
        except FileError:
            return Response(404, b"404 page not found\n", PLAIN)
        kind = "text/html" if path.endswith(".html") or isinstance(node, Directory) else "text/plain"
        return Response(200, found, {"Content-Type": f"{kind}; charset=utf-8"})

    async def converse(self, connection: Duplex, source: str) -> None:
        """Speak HTTP on a raw connection: one request, one answer."""
        data = b""
        while b"\r\n\r\n" not in data and (piece := await connection.read()):
            data += piece
        first, *lines = data.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        words = first.split()
        if len(words) != 3 or not words[2].startswith("HTTP/"):
            answer = Response(400, b"400 Bad Request", PLAIN)
        else:
            pairs = (line.partition(":") for line in lines)
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            answer = await self.respond(Request(words[0], words[1], headers, source=source))
        head = {**answer.headers, "Content-Length": str(len(answer.body)), "Connection": "close"}
        text = f"HTTP/1.1 {answer.status}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in head.items())
        await connection.write(text.encode() + b"\r\n" + answer.body)


async def proxy(process: Process, client: Client, opts: Flags) -> int:
    """Serve the API server on a local port until interrupted."""
    text = opts.get("port", "8001")
    if not text.lstrip("-").isdecimal():
        raise KubectlError(
            f'error: invalid argument "{text}" for "-p, --port" flag: strconv.ParseInt: parsing "{text}": '
            "invalid syntax\nSee 'kubectl proxy --help' for usage."
        )
    port, address = int(text), opts.get("address", "127.0.0.1")
    server = Proxy(process, client, opts)
    network: Any = process.machine.network
    if not 0 <= port < 65536:
        raise KubectlError(f"error: listen tcp: address {port}: invalid port")
    if network is None or not hasattr(network, "listen"):
        raise KubectlError(f"error: listen tcp {address}:{port}: socket: operation not permitted")
    port = port or 32768 + process.pid * 7 % 28000
    if port in network.ports():
        raise KubectlError(f"error: listen tcp {address}:{port}: bind: address already in use")
    if opts.on("disable-filter"):
        await process.error(f"{_stamp(process)} proxy.go:177] {UNFILTERED}\n")
    network.listen(port, server)
    await process.write(f"Starting to serve on {address}:{port}\n")
    try:
        while True:
            await process.sleep(FOREVER_S)
    finally:
        network.close(port, server)


def _stamp(process: Process) -> str:
    return process.machine.clock.now().strftime("W%m%d %H:%M:%S.%f") + f" {process.pid:7d}"
