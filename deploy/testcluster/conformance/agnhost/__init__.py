"""``agnhost`` of the Kubernetes project's test images: the subcommands that the suite's pods are made of.

It is no part of kubesim: ``register`` lets the containers of this process run it. Elsewhere its image serves nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from kubesim.kubelet.python_serving import SIGNALLED, serve, signalled
from kubesim.network.fabric import HttpServer, Request, Response
from kubesim.shell.errors import TEXTS, FileError, StartError
from kubesim.shell.files import Directory, File
from kubesim.shell.handles import Capture, Handle
from kubesim.shell.machine import Process
from kubesim.shell.tools import TOOLS

from .guestbook import Guestbook, query
from .identity import issuer_discovery
from .serving import Handler, Handlers, text
from .webhooks import conversion_webhook, webhook

NEW_FILE = b"mount-tester new file\n"
LONGEST_OUTPUT = 1 << 20
SIGNALS = {"INT": "interrupt", "TERM": "terminated"}


def flags(words: list[str]) -> dict[str, str]:
    """Return the flags of a command line: ``--name=value``, ``--name value`` or ``--name``."""
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        if word.startswith("-"):
            name, equals, value = word.lstrip("-").partition("=")
            after = words[at + 1] if at + 1 < len(words) else "true"
            found[name] = value if equals else "true" if after.startswith("-") else after
    return found


async def run(process: Process) -> int:
    """Run a subcommand."""
    name = process.argv[1] if len(process.argv) > 1 else "pause"
    if process.name == "agnhost-2":
        name = "entrypoint-tester"
    command = COMMANDS.get(name)
    if command is None:
        return await process.fail(f'Error: unknown command "{name}" for "app"')
    return await command(process, flags(process.argv[2:]))


async def entrypoint_tester(process: Process, given: dict[str, str]) -> int:
    """Print the whole command line."""
    await process.write(f"[{' '.join(process.argv)}]\n")
    return 0


async def pause(process: Process, given: dict[str, str]) -> int:
    """Wait for a signal, and leave it as the termination message."""
    await process.write("Paused\nSignals registered\n")
    await process.flush()
    name = await signalled(process, "INT", "TERM")
    said = f'exiting because of signal "{SIGNALS[name]}"\n'
    try:
        process.view.write(process.env.get("TERMINATION_MESSAGE_PATH") or "/dev/termination-log", said.encode())
    except FileError:
        await process.error("cannot write the termination message\n")
    await process.write(said)
    return 1 if name == "INT" else SIGNALLED


def _port(given: dict[str, str], name: str, default: int) -> int:
    value = given.get(name, "")
    return int(value) if value.isdecimal() and 0 < int(value) < 65536 else default


async def netexec(process: Process, given: dict[str, str]) -> int:
    """Serve what tests ask pods over HTTP."""
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def leave(request: Request) -> Response:
        code = query(request, "code")
        if not ended.done():
            ended.set_result(int(code) if code.isdecimal() else 0)
        return text("")

    paths: dict[str, Handler] = {
        "/": lambda request: _now(process),
        "/clientip": lambda request: _said(f"{request.source}:40000"),
        "/header": _header,
        "/echo": _echo,
        "/healthz": lambda request: _said(""),
        "/readyz": lambda request: _said(""),
        "/hostname": lambda request: _said(process.machine.hostname),
        "/hostName": lambda request: _said(process.machine.hostname),
        "/redirect": _redirect,
        "/shell": lambda request: _shell(process, request),
        "/exit": leave,
        "/shutdown": leave,
    }
    port = _port(given, "http-port", 8080)
    serving = asyncio.ensure_future(serve(process, {port: Handlers(process, paths)}, 0))
    try:
        await asyncio.wait([serving, ended], return_when=asyncio.FIRST_COMPLETED)
        if serving.done() and (delay := given.get("delay-shutdown", "")).isdecimal():
            await process.sleep(int(delay))
        return ended.result() if ended.done() else serving.result()
    finally:
        serving.cancel()


def _saying(body: str) -> Handler:
    return lambda request: _said(body)


async def _said(body: str) -> Response:
    return text(body)


async def _now(process: Process) -> Response:
    return text(f"NOW: {process.machine.clock.now().strftime('%Y-%m-%d %H:%M:%S.%f')}000 +0000 UTC")


async def _header(request: Request) -> Response:
    key = query(request, "key")
    if key:
        return text(request.headers.get(key.lower(), ""))
    return text(json.dumps({name.title(): [value] for name, value in request.headers.items()}))


async def _echo(request: Request) -> Response:
    code = query(request, "code")
    return text(query(request, "msg"), int(code) if code.isdecimal() and 100 <= int(code) < 600 else 200)


async def _redirect(request: Request) -> Response:
    code = query(request, "code")
    return Response(int(code) if code.isdecimal() else 302, b"", {"Location": query(request, "location")})


async def _shell(process: Process, request: Request) -> Response:
    """Run a command line and tell what it printed."""
    line = query(request, "shellCommand") or query(request, "cmd")
    out = Capture(LONGEST_OUTPUT)
    handles: dict[int, Handle] = {1: out, 2: out}
    found: dict[str, str] = {}
    try:
        status = await process.run(["/bin/sh", "-c", line], fds=handles).wait()
        found = {"error": f"exit status {status}"} if status else {}
    except (StartError, FileError) as error:
        found = {"error": str(error)}
    printed = bytes(out.data).decode("utf-8", "replace")
    return text(json.dumps(({"output": printed} if printed else {}) | found))


async def liveness(process: Process, given: dict[str, str]) -> int:
    """Be well for ten seconds, and ill from then on."""
    started = process.machine.clock.now()

    def age() -> float:
        return (process.machine.clock.now() - started).total_seconds()

    async def health(request: Request) -> Response:
        return text("ok") if age() <= 10 else text(f"error: {age():f}", 500)

    async def redirect(request: Request) -> Response:
        return Response(302, b"", {"Location": query(request, "loc")})

    paths: dict[str, Handler] = {
        "/healthz": health,
        "/redirect": redirect,
        "/started": lambda request: _said(f"{age()}s"),
    }
    return await serve(process, {8080: Handlers(process, paths, log=False)})


async def serve_hostname(process: Process, given: dict[str, str]) -> int:
    """Serve the pod's name."""
    paths: dict[str, Handler] = {"/": lambda request: _said(process.machine.hostname)}
    return await serve(process, {_port(given, "port", 9376): Handlers(process, paths)})


async def test_webserver(process: Process, given: dict[str, str]) -> int:
    """Serve the container's files."""

    async def page(request: Request) -> Response:
        node = process.view.find(request.path)
        if isinstance(node, File):
            return Response(200, bytes(node.content()))
        if isinstance(node, Directory):
            names = "".join(f'<a href="{name}">{name}</a>\n' for name in node.names())
            return Response(200, f"<pre>\n{names}</pre>\n".encode(), {"Content-Type": "text/html; charset=utf-8"})
        return text("404 page not found\n", 404)

    return await serve(process, {_port(given, "port", 80): Handlers(process, {"/": page}, log=False)})


async def porter(process: Process, given: dict[str, str]) -> int:
    """Serve the values of SERVE_PORT_* variables on their ports."""
    ports: dict[int, HttpServer] = {}
    for prefix in ("SERVE_PORT_", "SERVE_TLS_PORT_"):
        for name, value in process.env.items():
            number = name.removeprefix(prefix)
            if name.startswith(prefix) and number.isdecimal():
                ports[int(number)] = Handlers(process, {"/": _saying(value)})
    return await serve(process, ports)


async def grpc_health_checking(process: Process, given: dict[str, str]) -> int:
    """Serve a gRPC health service; two paths on another port switch it."""
    delay = given.get("delay-unhealthy-sec", "-1")
    server = HealthServer()
    if delay.isdecimal():
        process.machine.clock.call_later(int(delay), lambda: server.become(healthy=False))

    async def switch(request: Request) -> Response:
        server.become(healthy=request.path == "/make-serving")
        return text("")

    paths: dict[str, Handler] = {"/make-serving": switch, "/make-not-serving": switch}
    ports = {_port(given, "port", 5000): server, _port(given, "http-port", 8080): Handlers(process, paths)}
    return await serve(process, ports)


class HealthServer(HttpServer):
    """A gRPC health service, asked as a POST to its method: the answer's body is the status."""

    def __init__(self) -> None:
        self._healthy = True

    def become(self, *, healthy: bool) -> None:
        """Serve, or no longer."""
        self._healthy = healthy

    async def respond(self, request: Request) -> Response:
        """Answer a health check."""
        if request.path != "/grpc.health.v1.Health/Check":
            return Response(415, b"")
        return Response(200, b"SERVING" if self._healthy else b"NOT_SERVING")


async def mounttest(process: Process, given: dict[str, str]) -> int:
    """Print what a mounted file is like, in the order in which tests want it."""
    process.view.umask = 0
    failed = False
    if path := given.get("fs_type"):
        kind = next(
            (m.kind for at, m in sorted(process.view.files.mounts.items())[::-1] if path.startswith(at)), "ext4"
        )
        await process.write(f'mount type of "{path}": {"tmpfs" if kind == "tmpfs" else 61267}\n')
    for mode in ("0644", "0666", "0660", "0777"):
        if path := given.get(f"new_file_{mode}"):
            failed |= await _new_file(process, path, int(mode, 8))
    for name, show in (
        ("file_mode", _mode),
        ("file_perm", _perm),
        ("file_owner", _owner),
        ("file_content", _content),
    ):
        if path := given.get(name):
            failed |= await show(process, path)
    if path := given.get("file_content_in_loop"):
        failed |= await _loop(process, path, given)
    return int(failed)


async def _new_file(process: Process, path: str, mode: int) -> bool:
    try:
        process.view.write(path, NEW_FILE)
        process.view.node(path).mode = mode
    except FileError as error:
        await process.write(f'error writing new file "{path}": open {path}: {TEXTS[error.code].lower()}\n')
        return True
    return await _content(process, path)


async def _content(process: Process, path: str) -> bool:
    try:
        data = process.view.read(path)
    except FileError as error:
        await process.write(f'error reading file content for "{path}": open {path}: {TEXTS[error.code].lower()}\n')
        return True
    await process.write(f'content of file "{path}": '.encode() + data + b"\n")
    return False


def go_mode(mode: int, kind: str = "-") -> str:
    """Return a mode as Go's FileMode prints it."""
    letters = "".join(letter if mode >> (8 - at) & 1 else "-" for at, letter in enumerate("rwxrwxrwx"))
    special = ("u" if mode & 0o4000 else "") + ("g" if mode & 0o2000 else "") + ("t" if mode & 0o1000 else "")
    return (special or "-" if kind == "-" else kind + special) + letters


async def _mode(process: Process, path: str) -> bool:
    node = process.view.find(path)
    if node is None:
        await process.write(f'error from Stat("{path}"): stat {path}: no such file or directory\n')
        return True
    shown = go_mode(node.mode, "d" if isinstance(node, Directory) else "-")
    await process.write(f'mode of file "{path}": {shown}\n')
    return False


async def _perm(process: Process, path: str) -> bool:
    node = process.view.find(path)
    if node is None:
        await process.write(f'error from Stat("{path}"): stat {path}: no such file or directory\n')
        return True
    await process.write(f'perms of file "{path}": {go_mode(node.mode & 0o777)}\n')
    return False


async def _owner(process: Process, path: str) -> bool:
    node = process.view.find(path)
    if node is None:
        await process.write(f'error from stat("{path}"): no such file or directory\n')
        return True
    await process.write(f'owner UID of "{path}": {node.uid}\nowner GID of "{path}": {node.gid}\n')
    return False


async def _loop(process: Process, path: str, given: dict[str, str]) -> bool:
    """Print a file every two seconds."""
    tries = int(given["retry_time"]) // 2 if given.get("retry_time", "").isdecimal() else 90
    stops = given.get("break_on_expected_content", "true") != "false"
    data: bytes | None = None
    for _ in range(max(tries, 1)):
        try:
            data = process.view.read(path)
        except FileError as error:
            data = None
            await process.write(f"Error reading file {path}: open {path}: {TEXTS[error.code].lower()}, retrying\n")
        else:
            await process.write(f'content of file "{path}": '.encode() + data + b"\n")
            if stops and data == NEW_FILE:
                return False
            if stops:
                await process.write(b"Unexpected content. Expected: " + NEW_FILE + b". Retrying\n")
        await process.sleep(2)
    return data is None


async def logs_generator(process: Process, given: dict[str, str]) -> int:
    """Print lines that look like a server's, spread over a time."""
    total = int(given.get("log-lines-total", "0") or 0)
    duration = given.get("run-duration", "0s")
    seconds = float(duration.rstrip("s")) if duration.endswith("s") and not duration.endswith("ms") else 1.0
    for number in range(total):
        await process.sleep(seconds / max(total, 1))
        stamp = process.machine.clock.now().strftime("%m%d %H:%M:%S.%f")
        method = ("GET", "PUT", "POST")[number % 3]
        pod = f"{number * 7919 % 46656:x}"
        path = (
            f"/api/v1/namespaces/{('kube-system', 'default', 'ns')[number % 3]}/pods/{pod} {200 + number * 31 % 400}"
        )
        await process.error(f"I{stamp}       1 logs_generator.go:76] {number} {method} {path}\n")
    return 0


async def etc_hosts(process: Process, given: dict[str, str]) -> int:
    """Print /etc/hosts."""
    await process.write(process.view.read("/etc/hosts"))
    return 0


def _resolver(process: Process, word: str) -> list[str]:
    """Return the words of the lines of /etc/resolv.conf that begin so."""
    lines = [line.split() for line in process.view.read("/etc/resolv.conf").decode("utf-8", "replace").splitlines()]
    return [item for line in lines if line[:1] == [word] for item in line[1:]]


async def dns_suffix(process: Process, given: dict[str, str]) -> int:
    """Print the search list of the resolver."""
    await process.write(",".join(_resolver(process, "search")) + "\n")
    return 0


async def dns_server_list(process: Process, given: dict[str, str]) -> int:
    """Print the name servers of the resolver."""
    await process.write(",".join(_resolver(process, "nameserver")) + "\n")
    return 0


async def nettest(process: Process, given: dict[str, str]) -> int:
    """Keep a count of who has written, and show it."""
    state: dict[str, object] = {"Hostname": process.machine.hostname, "Sent": {}, "Errors": None, "Log": []}
    received: dict[str, int] = {}

    async def write(request: Request) -> Response:
        try:
            source = str(json.loads(request.body)["Source"])
        except (ValueError, KeyError, TypeError) as error:
            return text(f"{error}\n", 500)
        received[source] = received.get(source, 0) + 1
        return text("{}")

    async def read(request: Request) -> Response:
        return text(json.dumps({**state, "Received": received, "StillContactingPeers": False}))

    paths: dict[str, Handler] = {"/write": write, "/read": read}
    return await serve(process, {_port(given, "port", 8080): Handlers(process, paths, log=False)})


Command = Callable[[Process, dict[str, str]], Awaitable[int]]


async def guestbook(process: Process, given: dict[str, str]) -> int:
    """Keep a guestbook, copy one, or show it."""
    book = Guestbook(process, given)
    joining = asyncio.ensure_future(book.join())
    try:
        return await serve(process, {_port(given, "http-port", 80): Handlers(process, book.paths())})
    finally:
        joining.cancel()


COMMANDS: dict[str, Command] = {
    "crd-conversion-webhook": conversion_webhook,
    "dns-server-list": dns_server_list,
    "dns-suffix": dns_suffix,
    "etc-hosts": etc_hosts,
    "entrypoint-tester": entrypoint_tester,
    "grpc-health-checking": grpc_health_checking,
    "guestbook": guestbook,
    "liveness": liveness,
    "logs-generator": logs_generator,
    "mounttest": mounttest,
    "netexec": netexec,
    "nettest": nettest,
    "pause": pause,
    "porter": porter,
    "serve-hostname": serve_hostname,
    "test-service-account-issuer-discovery": issuer_discovery,
    "test-webserver": test_webserver,
    "webhook": webhook,
}


def register() -> None:
    """Let containers whose image has the program run it."""
    TOOLS.add("agnhost", run)
    TOOLS.add("agnhost-2", run)
