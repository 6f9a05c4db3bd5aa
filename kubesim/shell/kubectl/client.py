"""What kubectl's verbs ask of the API server: discovery, requests, errors."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from kubesim.shell.errors import REASONS, NetworkError
from kubesim.shell.machine import Process
from kubesim.shell.wayout import KubeAccess

Obj = dict[str, Any]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
VERSION = "v1.34.4"
REQUEST = "The request is invalid"
REFUSED = "The connection to the server {} was refused - did you specify the right host or port?"


class KubectlError(Exception):
    """A message for standard error; kubectl ends with ``status``, after it has ``printed`` something."""

    def __init__(self, text: str, status: int = 1, reason: str = "", message: str = "", printed: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.printed = printed
        self.status = status
        self.reason = reason
        self.message = message or text.removeprefix("error: ")

    def during(self, doing: str, source: str) -> KubectlError:
        """Return this refusal of the server with what was tried and from which file."""
        if not self.reason or self.reason in ("Invalid", "Unauthorized"):
            return self
        text = f'Error from server ({self.reason}): error when {doing} "{source}": {self.message}'
        return KubectlError(text, self.status, self.reason, self.message)


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as discovery tells of it."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    short: tuple[str, ...]
    verbs: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """The group and version, as objects name it."""
        return f"{self.group}/{self.version}".lstrip("/")

    @property
    def qualified(self) -> str:
        """The name with its group, as messages show it."""
        return f"{self.singular}.{self.group}" if self.group else self.singular

    @property
    def collection(self) -> str:
        """The plural with its group, as messages show it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str, name: str = "") -> str:
        """Return the path of a collection or object; no namespace means all."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        where = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        return f"{root}{where}/{self.plural}" + (f"/{quote(name, safe='')}" if name else "")


class Client:
    """One run's way to the API server."""

    def __init__(self, process: Process, namespace: str, extra: Mapping[str, str] = {}) -> None:
        """``extra`` are headers that say who asks: a token, or whom to act as."""
        kube = process.machine.kube
        if kube is None:
            raise KubectlError(REFUSED.format("localhost:8080"))
        self.kube: KubeAccess = kube
        self.process = process
        self.chosen = bool(namespace)
        self.namespace = namespace or kube.namespace or "default"
        self.limit = 0.0
        self._extra = dict(extra)
        self._resources: list[Resource] = []
        self._warned: set[str] = set()

    def headers(self, more: dict[str, str]) -> dict[str, str]:
        """Return headers with kubectl's own, and what the command line says of who asks."""
        return {"User-Agent": f"kubectl/{VERSION} (linux/amd64) kubernetes/7f2eb61", **self._extra, **more}

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        accept: str = "application/json",
        sort: str = "application/json",
    ) -> Obj:
        """Make a request; raises KubectlError with the server's message."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
        answer = await self.raw(method, path, data, accept, sort)
        try:
            found: Obj = json.loads(answer) if answer else {}
        except ValueError:
            return {"message": answer.decode("utf-8", "replace").strip()}
        return found

    def unreachable(self, error: NetworkError) -> KubectlError:
        """Return what is said where the server cannot be reached."""
        address = self.kube.server.partition("//")[2]
        if error.kind == "refused":
            return KubectlError(REFUSED.format(address.removesuffix(":443")))
        reason = REASONS.get(error.kind, REASONS["unreachable"])
        return KubectlError(f"Unable to connect to the server: dial tcp {address}: {reason}")

    async def _warn(self, headers: Mapping[str, str]) -> None:
        """Show the server's warnings, each once."""
        text = next((value for name, value in headers.items() if name.lower() == "warning"), "")
        for found in re.findall(r'299 - "((?:[^"\\]|\\.)*)"', text):
            if found not in self._warned:
                self._warned.add(found)
                await self.process.error(f"Warning: {found.replace(chr(92), '')}\n")

    async def raw(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        accept: str = "application/json, */*",
        sort: str = "application/json",
    ) -> bytes:
        """Return an answer as it stands. Raises KubectlError with the server's message."""
        headers = self.headers({"Accept": accept, **({"Content-Type": sort} if body else {})})
        try:
            status, told, answer = await self.kube.request(method, path, body=body, headers=headers)
        except NetworkError as error:
            raise self.unreachable(error) from error
        await self._warn(told)
        if status >= 400:
            raise refusal_of(status, answer)
        return answer

    async def events(self, path: str, accept: str = "application/json") -> AsyncIterator[Obj]:
        """Yield the events of a watch, until ``limit`` seconds are over."""
        rest = b""
        pieces = self.kube.stream(path, headers=self.headers({"Accept": accept}))
        async for piece in within(self.process, pieces, self.limit):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.strip():
                    yield json.loads(line)

    async def resources(self) -> list[Resource]:
        """Return every kind that the server serves."""
        if not self._resources:
            for path in ("/api", "/apis"):
                found = await self.request("GET", path, accept=DISCOVERY)
                for group in found.get("items", []):
                    self._resources += _kinds(group)
        return self._resources

    async def resource(self, word: str) -> Resource:
        """Return the kind of a name, whose case does not matter, a short name or one with its group."""
        name, _, group = word.lower().partition(".")
        short = word.partition(".")[0]
        for each in await self.resources():
            known = name in (each.plural, each.singular, each.kind.lower()) or short in each.short
            if known and (not group or f"{each.group}".startswith(group) or group == f"{each.version}.{each.group}"):
                return each
        raise KubectlError(f'error: the server doesn\'t have a resource type "{word}"')

    async def of_object(self, obj: Obj, source: str = "STDIN") -> Resource:
        """Return the kind of a manifest."""
        group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
        metadata = obj.get("metadata") or {}
        for each in await self.resources():
            if (each.group, each.version, each.kind) == (group, version, obj.get("kind")):
                return each
        raise KubectlError(
            f'error: resource mapping not found for name: "{metadata.get("name", "")}" namespace: '
            f'"{metadata.get("namespace", "")}" from "{source}": no matches for kind "{obj.get("kind")}" in version '
            f'"{obj.get("apiVersion")}"\nensure CRDs are installed first'
        )


async def within(process: Process, pieces: AsyncIterator[bytes], limit: float) -> AsyncIterator[bytes]:
    """Yield what comes within a number of seconds of the clock; 0 is without end."""
    if not limit:
        async for piece in pieces:
            yield piece
        return
    clock = asyncio.ensure_future(process.machine.clock.sleep(limit))
    try:
        while True:
            following = asyncio.ensure_future(anext(pieces, b""))
            await asyncio.wait({following, clock}, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                following.cancel()
                return
            if not (piece := following.result()):
                return
            yield piece
    finally:
        clock.cancel()


def refusal_of(status: int, answer: bytes) -> KubectlError:
    """Return an answer that is a refusal as kubectl words it, be it a Status or text."""
    try:
        found = json.loads(answer)
    except ValueError:
        found = None
    if isinstance(found, dict) and "message" in found:
        return _refusal(found)
    if status == 404:
        return _refusal({"reason": "NotFound", "message": "the server could not find the requested resource"})
    return _refusal({"message": answer.decode("utf-8", "replace").strip() or "unknown"})


def _refusal(found: Obj) -> KubectlError:
    """Return the server's refusal as kubectl words it."""
    reason, message = found.get("reason") or "", found.get("message", "")
    if reason == "Unauthorized":
        return KubectlError("error: You must be logged in to the server (Unauthorized)", reason=reason)
    if reason == "Invalid":
        return KubectlError(_invalid(found, message), reason=reason, message=message)
    shown = f"Error from server ({reason})" if reason else "Error from server"
    return KubectlError(f"{shown}: {message}", reason=reason, message=message)


def _invalid(found: Obj, message: str) -> str:
    details = found.get("details") or {}
    if not details:
        return f"{REQUEST}: {message}"
    causes = [f"{cause.get('field', '')}: {cause['message']}" for cause in details.get("causes", [])]
    causes = list(dict.fromkeys(causes))
    head = f'The {details["kind"]} "{details.get("name", "")}" is invalid' if details.get("kind") else REQUEST
    if len(causes) < 2:
        return ": ".join([head, *causes])
    return f"{head}: \n" + "\n".join(f"* {cause}" for cause in causes)


def _kinds(group: Obj) -> list[Resource]:
    found = []
    seen: set[str] = set()  # the first version that has a kind is the preferred one
    for version in group.get("versions", []):
        for each in version.get("resources", []):
            if each["resource"] in seen:
                continue
            seen.add(each["resource"])
            kind = each.get("responseKind", {}).get("kind", "")
            own = group.get("metadata", {}).get("name", "") or "", version["version"], each["resource"]
            singular, namespaced = each.get("singularResource") or kind.lower(), each.get("scope") == "Namespaced"
            lists = (tuple(each.get(name) or ()) for name in ("shortNames", "verbs", "categories"))
            found.append(Resource(*own, singular, kind, namespaced, *lists))
    return found
