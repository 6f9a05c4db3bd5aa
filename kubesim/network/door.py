"""The API server as programs inside pods reach it: over its own TLS address, with the credentials that they show."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from urllib.parse import urlsplit

from aiohttp import (
    BaseConnector,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    ClientWebSocketResponse,
    TCPConnector,
    UnixConnector,
    WSMsgType,
    WSServerHandshakeError,
)

from kubesim.clock import first
from kubesim.connections import Connections
from kubesim.network.fabric import Door as Reachable
from kubesim.network.fabric import Ends, HttpServer, Request, Response, render
from kubesim.shell.errors import NetworkError, UpgradeError
from kubesim.shell.handles import Messages
from kubesim.streaming.seam import Duplex

SERVICE_ADDRESS, SERVICE_PORT = "10.96.0.1", 443
MOST_CONNECTIONS = 64
ANSWER_SECONDS = 60.0
FOREVER = ClientTimeout(total=None)
PIECE = 64 * 1024
LONGEST_MESSAGE = 4 << 20
CHANNELS = "v5.channel.k8s.io"
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    "Sec-WebSocket-Protocol": CHANNELS,
}
"""What asks for a WebSocket, where the answer is only read for why there is none."""
LASTING = re.compile(r"[?&](?:watch|follow)=(?:1|true)\b")
"""Requests for an answer that ends late, or never."""
KEPT = ("content-type", "warning", "retry-after", "location", "audit-id", "allow", "www-authenticate")
DROPPED = frozenset({"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "upgrade"})


class Door(HttpServer):
    """Passes requests on to the API server at ``server``, whose certificate ``ca_pem`` has signed."""

    def __init__(self, server: str, ca_pem: bytes) -> None:
        self._server = server
        self.socket = ""
        """The path of a Unix socket that leads there directly, without TLS; empty for none."""
        self._ca = ca_pem  # empty: the system's authorities
        self._session: ClientSession | None = None
        self._connections = Connections()

    @property
    def place(self) -> tuple[str, int]:
        """The address and port that it tells others, beside those of its service."""
        parts = urlsplit(self._server)
        return parts.hostname or "", parts.port or SERVICE_PORT

    @property
    def _base(self) -> str:
        return "http://kubernetes" if self.socket else self._server

    async def respond(self, request: Request) -> Response:
        """Answer a request. Raises ``NetworkError``."""
        try:
            async with self._open().request(
                request.method, self._base + request.target, headers=_sent(request.headers), data=request.body or None
            ) as answer:  # an empty body would be told as octets, which real discovery refuses
                return Response(answer.status, await answer.read(), _kept(answer))
        except TimeoutError as error:
            raise NetworkError("timeout") from error
        except ClientError as error:
            raise NetworkError("refused") from error

    async def reply(self, connection: Duplex, request: Request) -> bool:
        """Send the answer to a request: of a watch or a followed log, each piece as it comes."""
        if not isinstance(connection, Ends) or not LASTING.search(request.target):
            return await super().reply(connection, request)
        await first(self._pass_on(connection, request), connection.closed())
        return True

    async def _pass_on(self, connection: Ends, request: Request) -> None:
        with suppress(ClientError):  # where it breaks off, so does the connection
            async with self._get(request.target, request.headers) as answer:
                begun = Response(answer.status, headers=_kept(answer))
                await connection.write(render(begun, close=True, length=False))
                async for piece in answer.content.iter_any():
                    await connection.write(piece)

    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Yield the pieces of a long answer. Raises ``NetworkError``."""
        try:
            async with self._get(path, headers) as answer:
                async for piece in answer.content.iter_chunked(PIECE):
                    yield piece
        except ClientError as error:
            raise NetworkError("reset") from error

    @asynccontextmanager
    async def open(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[Messages]:
        """Open a WebSocket with numbered channels. Raises ``NetworkError`` and ``UpgradeError``."""
        sent, url = _sent(headers), self._base + path
        session = self._open()
        try:
            socket = await session.ws_connect(url, headers=sent, protocols=(CHANNELS,), max_msg_size=LONGEST_MESSAGE)
        except WSServerHandshakeError as error:
            asked = {**sent, **UPGRADE}
            async with session.get(url, headers=asked) as answer:
                raise UpgradeError(answer.status, await answer.read()) from error
        except ClientError as error:
            raise NetworkError("refused") from error
        async with socket:
            yield Socket(socket)

    async def close(self) -> None:
        """Let go of every connection."""
        if self._session is not None:
            await self._session.close()
            await self._connections.end()

    def _get(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[ClientResponse]:
        return self._open().get(self._base + path, headers=_sent(headers), timeout=FOREVER)

    def _open(self) -> ClientSession:
        if self._session is None:
            self._session = ClientSession(connector=self._connector(), timeout=ClientTimeout(total=ANSWER_SECONDS))
        return self._session

    def _connector(self) -> BaseConnector:
        if self.socket:
            return UnixConnector(self.socket, limit=MOST_CONNECTIONS)
        context = ssl.create_default_context(cadata=self._ca.decode() or None)
        return TCPConnector(ssl=context, limit=MOST_CONNECTIONS, socket_factory=self._connections.make)


def _sent(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in DROPPED}


def _kept(answer: ClientResponse) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.lower() in KEPT}


class Socket:
    """A WebSocket whose messages are bytes on numbered channels."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket = socket

    async def send(self, channel: int, data: bytes) -> None:
        """Send data on a channel; nothing once the other side has gone."""
        with suppress(ConnectionError):
            await self._socket.send_bytes(bytes([channel]) + data)

    async def receive(self) -> tuple[int, bytes] | None:
        """Return the next channel and data; None once the other side has gone."""
        async for message in self._socket:
            if message.type is WSMsgType.BINARY and message.data:
                return message.data[0], message.data[1:]
        return None


class PodKube:
    """A pod's way to the API server: its account's token, read from its file each time, as client libraries do."""

    def __init__(
        self,
        door: Reachable,
        namespace: str,
        token: Callable[[], str],
        way: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``way`` returns where the network lets the pod through, and raises ``NetworkError`` where it does not."""
        self.server = f"https://{SERVICE_ADDRESS}:{SERVICE_PORT}"
        self.namespace = namespace
        self._door = door
        self._token = token
        self._way = way

    @property
    def token(self) -> str:
        """The token of the pod's account; empty where none is mounted."""
        return self._token()

    async def request(
        self, method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Make one request with the pod's token: the status, headers and body of the answer."""
        if self._way is not None:
            await self._way()
        answer = await self._door.respond(Request(method, path, self._with_token(headers or {}), body))
        return answer.status, dict(answer.headers), answer.body

    async def stream(self, path: str, *, headers: Mapping[str, str] | None = None) -> AsyncIterator[bytes]:
        """Yield the pieces of a long answer: a watch, a followed log."""
        if self._way is not None:
            await self._way()
        async for piece in self._door.stream(path, self._with_token(headers or {})):
            yield piece

    def open(self, path: str, *, headers: Mapping[str, str] | None = None) -> AbstractAsyncContextManager[Messages]:
        """Open a WebSocket: exec, attach, port-forward."""
        return self._door.open(path, self._with_token(headers or {}))

    def _with_token(self, headers: Mapping[str, str]) -> dict[str, str]:
        named = {name.lower() for name in headers}
        token = self._token()
        return {**({"Authorization": f"Bearer {token}"} if token and "authorization" not in named else {}), **headers}
