"""The seam over HTTP: the verbs of ``client.Client`` against the API server of any cluster."""

from __future__ import annotations

import random
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import quote

import orjson
from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, TCPConnector

from kubesim.client import Client, ObjectList, WatchEvent, Write
from kubesim.clock import Clock
from kubesim.connections import Connections
from kubesim.errors import ApiError, Obj
from kubesim.schema.kinds import registry
from kubesim.schema.registry import Kind

ANSWER_SECONDS = 60.0
SILENT_SECONDS = 120.0
"""A watch that says nothing for so long, not even a bookmark, is taken to be cut off."""
WATCH_SECONDS = (300, 600)
MOST_TRIES = 5
MOST_CONNECTIONS = 32
METHODS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
PATCH_TYPES = {"json": "json-patch", "merge": "merge-patch", "strategic": "strategic-merge-patch"}


class Unreachable(ConnectionError):
    """The API server does not answer; the message says what happened."""


class Credential(Protocol):
    """Who a client is, beside the certificate in its TLS context."""

    async def headers(self) -> Mapping[str, str]:
        """Return the headers that prove it."""

    def refused(self) -> None:
        """Take note that the server does not accept them (any more)."""


class Anonymous:
    """Nobody, or whoever the certificate names."""

    async def headers(self) -> Mapping[str, str]:
        """Return nothing."""
        return {}

    def refused(self) -> None:
        """Do nothing: there is nothing to renew."""


class HttpClient(Client):
    """``client.Client`` for one user of the API server at ``server``. Raises ``Unreachable`` where it is away."""

    def __init__(
        self,
        server: str,
        context: ssl.SSLContext,
        clock: Clock,
        credential: Credential | None = None,
        agent: str = "kubesim",
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """``agent``: its first word is the field manager; ``more``: what every request of aiohttp is to be given."""
        self.server = server.rstrip("/")
        self._context = context
        self._clock = clock
        self._credential = credential or Anonymous()
        self._agent = agent
        self._more = more
        self._session: ClientSession | None = None
        self._retired: list[ClientSession] = []
        self._custom: dict[str, Kind] = {}
        self._connections = Connections()

    async def close(self) -> None:
        """Let go of every connection, at once: nobody waits for TLS's goodbye."""
        sessions, self._retired = [*self._retired, *([self._session] if self._session else [])], []
        self._session = None
        for session in sessions:
            if isinstance(session.connector, TCPConnector):
                await session.connector.close(abort_ssl=True)
            await session.close()
        await self._connections.end()

    def renew(self, context: ssl.SSLContext) -> None:
        """Use another certificate for every connection from now on; what is under way goes on with the old one."""
        self._context = context
        if self._session is not None:
            self._retired.append(self._session)
            self._session = None

    async def get(self, resource: str, name: str, namespace: str = "") -> Obj:
        """Return one object."""
        return await self._call("GET", _path(await self._kind(resource), namespace, name))

    async def list(
        self, resource: str, namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        """Return all objects of a resource; an empty namespace means every namespace."""
        query = _chosen(labelSelector=label_selector, fieldSelector=field_selector)
        kind = await self._kind(resource)
        found = await self._call("GET", _path(kind, namespace), query)
        named = {"apiVersion": kind.api_version, "kind": kind.kind}
        version = str((found.get("metadata") or {}).get("resourceVersion", ""))
        return ObjectList([{**named, **item} for item in found.get("items") or ()], version)

    async def watch(
        self, resource: str, namespace: str = "", *, field_selector: str = "", resource_version: str = ""
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield every change after ``resource_version`` until the server ends the watch, as it does now and then."""
        query = _chosen(
            watch="1",
            allowWatchBookmarks="true",
            timeoutSeconds=str(random.randint(*WATCH_SECONDS)),
            fieldSelector=field_selector,
            resourceVersion=resource_version,
        )
        timeout = ClientTimeout(total=None, sock_connect=ANSWER_SECONDS, sock_read=SILENT_SECONDS)
        path = _path(await self._kind(resource), namespace)
        try:
            async with self._open().get(
                self.server + path,
                params=query,
                headers=await self._credential.headers(),
                timeout=timeout,
                **self._more,
            ) as answer:
                if answer.status != 200:
                    raise self._error(answer, await answer.read())
                async for line in _lines(answer):
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        raise _told(410, event["object"])
                    yield WatchEvent(event["type"], event["object"])
        except (ClientError, TimeoutError, OSError, orjson.JSONDecodeError) as error:
            raise Unreachable(f"watch of {resource}: {error or type(error).__name__}") from error

    async def write(self, write: Write) -> Obj:
        """Send what a verb comes down to."""
        path = _path(await self._kind(write.resource), write.namespace, write.name, write.subresource)
        content_type = (
            f"application/{PATCH_TYPES[write.patch_type]}+json" if write.verb == "patch" else "application/json"
        )
        return await self._call(METHODS[write.verb], path, body=write.body, content_type=content_type)

    async def _kind(self, resource: str) -> Kind:
        """Return what the API calls a resource; one that Kubernetes does not bring is looked for in the cluster."""
        with suppress(ApiError):
            return self._custom.get(resource) or registry.by_resource(resource)
        plural, _, group = resource.partition(".")
        for version in [row["version"] for row in (await self._call("GET", f"/apis/{group}"))["versions"]]:
            for row in (await self._call("GET", f"/apis/{group}/{version}"))["resources"]:
                if row["name"] == plural:
                    kind = Kind(group, version, row["kind"], plural, row["namespaced"])
                    return self._custom.setdefault(resource, kind)
        raise ApiError(404, "NotFound", "the server could not find the requested resource")

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Obj:
        """Send a request, again where the server asks for some time, and return its answer."""
        data = None if body is None else orjson.dumps(body)
        for tries in range(MOST_TRIES):
            headers = {"Content-Type": content_type, **await self._credential.headers()}
            try:
                async with self._open().request(
                    method, self.server + path, params=query, data=data, headers=headers, **self._more
                ) as answer:
                    read = await answer.read()
            except (ClientError, TimeoutError, OSError) as error:
                raise Unreachable(f"{method} {path}: {error or type(error).__name__}") from error
            if answer.status < 300:
                return _object(read)
            pause = answer.headers.get("Retry-After", "")
            if not pause.isdecimal() or tries == MOST_TRIES - 1:
                break
            await self._clock.sleep(min(int(pause), ANSWER_SECONDS))
        raise self._error(answer, read)

    def _error(self, answer: ClientResponse, body: bytes) -> ApiError:
        """Return an answer that is no success as the error that it tells."""
        if answer.status == 401:
            self._credential.refused()
        with suppress(orjson.JSONDecodeError):
            told = orjson.loads(body)
            if isinstance(told, dict) and told.get("kind") == "Status":
                return _told(answer.status, told)
        text = body.decode("utf-8", "replace").strip() or answer.reason or "no answer"
        return ApiError(answer.status, "", text)

    def _open(self) -> ClientSession:
        if self._session is None:
            factory, timeout = self._connections.make, ClientTimeout(total=ANSWER_SECONDS)
            connector = TCPConnector(ssl=self._context, limit=MOST_CONNECTIONS, socket_factory=factory)
            headers = {"User-Agent": self._agent, "Accept": "application/json"}
            self._session = ClientSession(connector=connector, timeout=timeout, headers=headers)
        return self._session


async def _lines(answer: ClientResponse) -> AsyncIterator[bytes]:
    """Yield the lines of an answer, however long they are."""
    left = bytearray()
    async for piece in answer.content.iter_any():
        left += piece
        *whole, rest = left.split(b"\n")
        left = bytearray(rest)
        for line in whole:
            if line:
                yield bytes(line)


def _told(code: int, status: Obj) -> ApiError:
    """Return a Status as the error that it is."""
    found = (status.get("reason", ""), status.get("message", ""), status.get("details"), status.get("metadata"))
    return ApiError(status.get("code") or code, *found)


def _path(kind: Kind, namespace: str, name: str = "", subresource: str = "") -> str:
    """Return the path of a collection, an object or a part of one."""
    parts = ["apis", kind.group, kind.version] if kind.group else ["api", kind.version]
    if kind.namespaced and namespace:
        parts += ["namespaces", namespace]
    parts += [part for part in (kind.plural, name, subresource) if part]
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _chosen(**values: str) -> Obj:
    """Return what is not empty."""
    return {name: value for name, value in values.items() if value}


def _object(body: bytes) -> Obj:
    """Return the object in an answer. Raises ``Unreachable`` for what is none: something else answers there."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Unreachable("the server's answer is no JSON; is this a Kubernetes API server?") from error
    if not isinstance(found, dict):
        raise Unreachable("the server's answer is no object; is this a Kubernetes API server?")
    return found
