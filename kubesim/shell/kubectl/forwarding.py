"""kubectl port-forward: ports of a pod on this container's own address."""

from __future__ import annotations

import asyncio

from kubesim.network.fabric import Duplex, Request, Response
from kubesim.shell.errors import NetworkError, UpgradeError
from kubesim.shell.kubectl.client import Client, KubectlError, Obj, refusal_of
from kubesim.shell.kubectl.flags import Flags
from kubesim.shell.kubectl.streams import pod_of
from kubesim.shell.kubectl.targets import kinds_and_names
from kubesim.shell.machine import Process

DATA, ERROR, CLOSE = 0, 1, 255
FOREVER_S = 3600.0
LARGEST = 16 << 20


class Forwarder:
    """What listens on a local port: every connection goes through the API server to a pod's port."""

    def __init__(self, process: Process, client: Client, pod: Obj, local: int, port: int) -> None:
        self._process, self._client = process, client
        metadata = pod["metadata"]
        self._path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/portforward?ports={port}"
        self._local, self._port = local, port

    async def converse(self, connection: Duplex, source: str) -> None:
        """Pass a raw connection on until it ends."""
        await self._say(f"Handling connection for {self._local}\n")
        try:
            async with self._client.kube.open(self._path, headers=self._client.headers({})) as socket:
                await self._pass(connection, socket)
        except UpgradeError as error:
            await self._complain(refusal_of(error.status, error.body).message)
        except NetworkError as error:
            raise NetworkError("reset") from error

    async def _pass(self, connection: Duplex, socket: object) -> None:
        async def out() -> None:
            while data := await connection.read():
                await socket.send(DATA, data)  # type: ignore[attr-defined]
            await socket.send(CLOSE, bytes([DATA]))  # type: ignore[attr-defined]

        sending = asyncio.ensure_future(out())
        heard: set[int] = set()
        try:
            while message := await socket.receive():  # type: ignore[attr-defined]
                channel, data = message
                if channel not in heard:  # each channel begins with the port's number
                    heard.add(channel)
                    data = data[2:]
                if channel == DATA and data:
                    await connection.write(data)
                elif channel == ERROR and data:
                    await self._complain(data.decode("utf-8", "replace"))
        finally:
            sending.cancel()

    async def respond(self, request: Request) -> Response:
        """Pass an HTTP request on. Raises ``NetworkError``."""
        pipe = _OneRequest(request)
        await self.converse(pipe, request.source)
        return pipe.answer()

    async def _say(self, text: str) -> None:
        await self._process.write(text)
        await self._process.flush()

    async def _complain(self, text: str) -> None:
        stamp = self._process.machine.clock.now().strftime("E%m%d %H:%M:%S.%f")
        await self._process.error(
            f'{stamp}       1 portforward.go:424] "Unhandled Error" err="an error occurred forwarding '
            f'{self._local} -> {self._port}: {text}"\nerror: lost connection to pod\n'
        )


class _OneRequest:
    """A connection that sends one request and keeps what is answered."""

    def __init__(self, request: Request) -> None:
        headers = {
            name: value for name, value in request.headers.items() if name not in ("connection", "content-length")
        }
        lines = [
            f"{request.method} {request.target} HTTP/1.1",
            *(f"{name}: {text}" for name, text in headers.items()),
        ]
        lines += [f"content-length: {len(request.body)}", "connection: close"]
        self._data = "\r\n".join(lines).encode() + b"\r\n\r\n" + request.body
        self._got = bytearray()

    async def read(self, size: int = -1) -> bytes:
        """Return the request, once; then nothing, for ever: the server closes."""
        if not self._data:
            await asyncio.get_running_loop().create_future()
        data, self._data = self._data, b""
        return data

    async def write(self, data: bytes) -> None:
        """Keep a piece of the answer."""
        self._got += data[: LARGEST - len(self._got)]

    def answer(self) -> Response:
        """Return what was answered. Raises ``NetworkError`` where that is no HTTP."""
        head, blank, body = bytes(self._got).partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        if not blank or len(words) < 2 or not words[1].isdecimal():
            raise NetworkError("empty")
        headers = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return Response(int(words[1]), body, headers)


async def port_forward(process: Process, client: Client, opts: Flags) -> int:
    """Forward ports until interrupted."""
    if len(opts.args) < 2:
        raise KubectlError(
            "error: TYPE/NAME and list of ports are required for port-forward\n"
            "See 'kubectl port-forward -h' for help and examples"
        )
    pod, service = await _target(client, opts.args[0])
    for word in opts.args[1:]:
        _named(word.rpartition(":")[2] or word.rstrip(":"), pod, service)
    phase = (pod.get("status") or {}).get("phase")
    if phase != "Running":
        raise KubectlError(f"error: unable to forward port because pod is not running. Current status={phase}")
    wanted = [_ports(word, pod, service, at) for at, word in enumerate(opts.args[1:])]
    network = process.machine.network
    if network is None or not hasattr(network, "listen"):
        raise KubectlError("error: unable to listen on any of the requested ports")
    opened: list[tuple[int, Forwarder]] = []
    for local, port in wanted:
        forwarder = Forwarder(process, client, pod, local, port)
        network.listen(local, forwarder)
        opened.append((local, forwarder))
        for address in ("127.0.0.1", "[::1]"):
            await process.write(f"Forwarding from {address}:{local} -> {port}\n")
    try:
        while True:
            await process.sleep(FOREVER_S)
    finally:
        for local, forwarder in opened:
            network.close(local, forwarder)


async def _target(client: Client, word: str) -> tuple[Obj, Obj]:
    """Return the pod, and the service where one is named."""
    service: Obj = {}
    if "/" in word:
        kind, name = (await kinds_and_names(client, [word]))[0]
        if kind.kind == "Service":
            service = await client.request("GET", kind.path(client.namespace, name))
            if not (service.get("spec") or {}).get("selector"):
                raise KubectlError(f"error: invalid service '{name}': Service is defined without a selector")
    return await pod_of(client, word), service


def _ports(word: str, pod: Obj, service: Obj, count: int) -> tuple[int, int]:
    """Return the local port and the pod's of ``8080:80``, ``:80``, ``80`` or ``8080:http``. Raises KubectlError."""
    local, colon, remote = word.partition(":")
    remote = remote if colon else local
    port = _named(remote, pod, service)
    if colon and not local:
        return 40000 + (port * 7 + count) % 20000, port
    if not colon and not local.isdecimal():
        return port, port
    if not local.isdecimal() or not 0 <= int(local) < 65536:
        raise KubectlError(
            f'error: error parsing local port "{local}": strconv.ParseUint: parsing "{local}": invalid syntax'
        )
    return int(local), port


def _named(text: str, pod: Obj, service: Obj) -> int:
    found: object = int(text) if text.isdecimal() else text
    if service:
        ports = service["spec"].get("ports") or []
        match = next((each for each in ports if found in (each["port"], each.get("name"))), None)
        if match is None:
            name = service["metadata"]["name"]
            raise KubectlError(f"error: Service {name} does not have a service port {text}")
        found = match.get("targetPort", match["port"])
    if isinstance(found, int):
        return found
    for container in pod["spec"].get("containers") or []:
        for each in container.get("ports") or []:
            if each.get("name") == found:
                return int(each["containerPort"])
    raise KubectlError(f"error: Pod '{pod['metadata']['name']}' does not have a named port '{found}'")
