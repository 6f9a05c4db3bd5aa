"""The guestbook of the Kubernetes project's test image: a store, its replicas, and a page in front of them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs, urlencode, urlsplit

from kubesim.network.fabric import Request, Response
from kubesim.shell.errors import NetworkError
from kubesim.shell.machine import Process

TRIES = 60
PAUSE_S = 1.0
REFUSED, FAILED = 400, 417


class Guestbook:
    """One of its processes: which one its flags say."""

    def __init__(self, process: Process, given: dict[str, str]) -> None:
        self._process = process
        self._primary = given.get("replicaof", "")
        self._port = given.get("backend-port", "6379")
        self._store: dict[str, str] = {}
        self._replicas: list[str] = []

    def paths(self) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        """Return what it answers."""
        return {"/register": self._register, "/get": self._get, "/set": self._set, "/guestbook": self._front}

    async def join(self) -> None:
        """Become a replica of the primary, as soon as that is there."""
        for _ in range(TRIES if self._primary else 0):
            try:
                answer = await self._ask(self._primary, "register", {"host": self._process.machine.address})
            except NetworkError:
                await self._process.sleep(PAUSE_S)
                continue
            self._store = json.loads(answer)["data"]
            await self._process.error(f"Registered to node: {self._primary}\n")
            return

    async def _ask(self, host: str, command: str, query: dict[str, str]) -> bytes:
        network = self._process.machine.network
        if network is None:
            raise NetworkError("unreachable")
        url = f"http://{host}:{self._port}/{command}?{urlencode(query)}"
        _, _, body = await network.http("GET", url, {}, b"")
        return body

    async def _register(self, request: Request) -> Response:
        self._replicas.append(query(request, "host"))
        return _json({"data": self._store})

    async def _get(self, request: Request) -> Response:
        key = query(request, "key")
        return _json({"data": self._store.get(key, "") if key else self._store})

    async def _set(self, request: Request) -> Response:
        key, value = query(request, "key"), query(request, "value")
        if not key:
            return Response(REFUSED, b"cannot set with empty key.\n")
        self._store[key] = value
        for replica in self._replicas:
            try:
                await self._ask(replica, "set", {"key": key, "value": value})
            except NetworkError as error:
                text = f"encountered error while propagating to replica '{replica}': {error}\n"
                return Response(FAILED, text.encode())
        return _json({"message": "Updated"})

    async def _front(self, request: Request) -> Response:
        command = query(request, "cmd").lower()
        hosts = {"get": "agnhost-replica", "set": "agnhost-primary"}
        if command not in hosts:
            return Response(REFUSED, f"unsupported cmd: '{command}'\n".encode())
        asked = {name: query(request, name) for name in ("key", "value")}
        try:
            return Response(200, await self._ask(hosts[command], command, asked))
        except NetworkError as error:
            return Response(FAILED, f"encountered error: {error}\n".encode())


def query(request: Request, name: str) -> str:
    """Return a parameter of a request's query; "" where it is not there."""
    return parse_qs(urlsplit(request.target).query, keep_blank_values=True).get(name, [""])[0]


def _json(found: object) -> Response:
    return Response(200, json.dumps(found, separators=(",", ":")).encode())
