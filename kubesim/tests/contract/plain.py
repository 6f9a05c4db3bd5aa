"""Plain HTTPS requests to any cluster that a kubeconfig names: what a test sends is what goes over the wire."""

from __future__ import annotations

import base64
import json
import os
import select
import ssl
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubesim import data

SECONDS = 90
"""How long to wait for an answer: a real API server gives a request up after 60."""
Body = bytes | Iterable[bytes] | None


@dataclass(frozen=True)
class Answer:
    """What came back."""

    code: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Return the body's JSON, or None for another body."""
        if not self.headers.get("Content-Type", "").startswith("application/json"):
            return None
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def message(self) -> str:
        """Return the Status' message."""
        return str((self.json or {}).get("message", ""))

    @property
    def status(self) -> tuple[int, str, str]:
        """Return what a Status says: code, reason and message."""
        body = self.json
        assert body["kind"] == "Status", body
        assert body["code"] == self.code
        return self.code, body.get("reason", ""), body.get("message", "")


@dataclass
class Plain:
    """A cluster, its address, and whom its kubeconfig's user is known as."""

    name: str
    kubeconfig: Path
    host: str = field(init=False)
    port: int = field(init=False)
    context: ssl.SSLContext = field(init=False)
    credentials: dict[str, str] = field(init=False)
    idle: list[HTTPConnection] = field(init=False, repr=False, compare=False, default_factory=list)
    """Connections that have been answered whole: a handshake costs more than most requests."""

    def __post_init__(self) -> None:
        config = data.read(self.kubeconfig)
        server, user = _current(config)
        parts = urlsplit(server["server"])
        self.host, self.port = str(parts.hostname), parts.port or 443
        self.context = ssl.create_default_context(cadata=_inline(server, "certificate-authority").decode())
        self.credentials = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        if "client-certificate" in user or "client-certificate-data" in user:
            with _as_file(user, "client-certificate") as certificate, _as_file(user, "client-key") as key:
                self.context.load_cert_chain(certificate, key)
        weakref.finalize(self, _close_all, self.idle)

    def anonymous(self) -> ssl.SSLContext:
        """Return a context without the user's certificate."""
        server, _ = _current(data.read(self.kubeconfig))
        return ssl.create_default_context(cadata=_inline(server, "certificate-authority").decode())

    def connect(self, *, anonymous: bool = False) -> HTTPConnection:
        """Return a connection of the caller's own, who closes it."""
        context = self.anonymous() if anonymous else self.context
        return HTTPSConnection(self.host, self.port, timeout=SECONDS, context=context)

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        headers: Mapping[str, str] | None = None,
        anonymous: bool = False,
    ) -> Answer:
        """Send one request and return the whole answer; what is no bytes is sent as JSON."""
        credentials = {} if anonymous else self.credentials
        sent = {**credentials, **({"Content-Type": kind} if body is not None and kind else {}), **(headers or {})}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if anonymous:
            with closing(self.connect(anonymous=True)) as connection:
                return _whole(self._exchange(connection, method, path, data, sent))
        return self._kept(method, path, data, sent)

    def _kept(self, method: str, path: str, data: Body, headers: Mapping[str, str]) -> Answer:
        """Send a request on a connection that is kept afterwards where the server keeps it, too."""
        with ExitStack() as unless_kept:
            connection = unless_kept.enter_context(closing(self._at_hand()))
            response = self._exchange(connection, method, path, data, headers)
            answer = _whole(response)
            if not response.will_close:
                unless_kept.pop_all()
                self.idle.append(connection)
        return answer

    def _at_hand(self) -> HTTPConnection:
        """Return a connection from before, unless the server has hung up meanwhile, or a new one."""
        while self.idle:
            connection = self.idle.pop()
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()
        return self.connect()

    def _exchange(
        self, connection: HTTPConnection, method: str, path: str, data: Body, headers: Mapping[str, str]
    ) -> HTTPResponse:
        """Send a request; a server may answer and hang up before it has read a long body."""
        try:
            connection.request(method, path, data, dict(headers))
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            if connection.sock is None:
                raise
        return connection.getresponse()

    @contextmanager
    def watching(self, path: str, **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
        """Open a watch and yield its events as they come; leaving the block closes it."""
        with closing(self.connect()) as connection:
            connection.request("GET", path, headers={**self.credentials, **headers})
            yield _events(connection.getresponse())

    def events(self, path: str, count: int, **headers: str) -> list[dict[str, Any]]:
        """Return the first ``count`` events of a watch, or fewer where the server ends it."""
        with self.watching(path, **headers) as found:
            return [event for _, event in zip(range(count), found, strict=False)]


def _whole(response: HTTPResponse) -> Answer:
    return Answer(response.status, response.headers, response.read())


def _close_all(connections: list[HTTPConnection]) -> None:
    for connection in connections:
        connection.close()


def _events(response: HTTPResponse) -> Iterator[dict[str, Any]]:
    while line := response.readline():
        yield json.loads(line)


def _current(config: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the cluster and the user of a kubeconfig's current context."""
    context = _named(config["contexts"], config["current-context"])["context"]
    return _named(config["clusters"], context["cluster"])["cluster"], _named(config["users"], context["user"])["user"]


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _inline(entry: dict[str, Any], key: str) -> bytes:
    """Return what a kubeconfig carries, or the file that it names."""
    data = entry.get(f"{key}-data")
    return base64.b64decode(data) if data else Path(entry[key]).read_bytes()


@contextmanager
def _as_file(entry: dict[str, Any], key: str) -> Iterator[str]:
    if f"{key}-data" not in entry:
        yield entry[key]
        return
    with tempfile.NamedTemporaryFile(dir=os.environ.get("TMPDIR")) as file:
        file.write(_inline(entry, key))
        file.flush()
        yield file.name


__all__ = ["Answer", "HTTPException", "Plain"]
