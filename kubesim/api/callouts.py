"""Calls to servers behind services: those of APIServices, which serve groups of their own, and webhooks.

A webhook may be at a URL as well; what goes wrong is told as Go's clients tell it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import ipaddress
import random
import ssl
from collections.abc import Iterator, Mapping
from urllib.parse import quote, urlsplit

import orjson
from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientConnectorSSLError,
    ClientError,
    ClientSession,
    web,
)

from kubesim.api.answers import NO_CACHE
from kubesim.api.connect import HOP_BY_HOP
from kubesim.apiservices import RESOURCE
from kubesim.asking import Answer, Question
from kubesim.auth.users import User
from kubesim.clock import Clock, TooSlow, in_time
from kubesim.errors import ApiError, Obj
from kubesim.network import certificates
from kubesim.network.fabric import Fabric, Request, Response
from kubesim.schema.paths import is_true
from kubesim.schema.registry import Registry
from kubesim.shell.errors import REASONS, NetworkError
from kubesim.store import Store

PORT = 443
LONGEST_ANSWER = 3 * 1024 * 1024
HEADERS = {
    "accept": "application/json, */*",
    "content-type": "application/json",
    "user-agent": "kube-apiserver-admission",
}
UNTRUSTED = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
PLAIN = "http: server gave HTTP response to HTTPS client"
SLICES = "endpointslices.discovery.k8s.io"
OWNER = "kubernetes.io/service-name"
SERVICE_PORT = 443
PODS = "(get pods.metrics.k8s.io)"
SYSTEM = User("system:kube-aggregator", ("system:masters",))
"""The caller that asks whether a server is there."""
GroupVersion = tuple[str, str]


class CallError(Exception):
    """Nothing came back; the message is what a Go program would say of it."""


class Caller:
    """Posts reviews. Until ``outside`` is set, URLs lead only to addresses within the cluster."""

    def __init__(self, store: Store, registry: Registry, fabric: Fabric, clock: Clock) -> None:
        self._store = store
        self._registry = registry
        self._fabric = fabric
        self._clock = clock
        self.outside = False

    async def ask(self, question: Question) -> Answer:
        """Post one review and read the one that comes back."""
        url = address(question)
        try:
            response = await in_time(self._clock, question.seconds, self._post(url, question))
        except TooSlow:
            return Answer(error=f'Post "{url}": context deadline exceeded')
        except CallError as error:
            return Answer(error=f'Post "{url}": {error}')
        return _read(response)

    async def _post(self, url: str, question: Question) -> Response:
        body = orjson.dumps(question.review)
        if "service" in question.client:
            return await self._post_to_service(url, question, body)
        host, port = urlsplit(url).hostname or "", urlsplit(url).port or PORT
        if self.outside:
            return await _post_outside(url, f"{host}:{port}", _bundle(question.client), body)
        try:
            ipaddress.ip_address(host)
        except ValueError as error:
            raise CallError(f"dial tcp: lookup {host}: no such host") from error
        return await self._post_within(host, port, f"{host}:{port}", url, question, body)

    async def _post_to_service(self, url: str, question: Question, body: bytes) -> Response:
        asked = question.client["service"]
        namespace, name, port = asked["namespace"], asked["name"], asked.get("port") or PORT
        found = self._store.get(self._registry.by_resource("services"), namespace, name)
        if found is None:
            raise CallError(f'service "{name}" not found')
        if not any(entry["port"] == port for entry in found["spec"].get("ports") or ()):
            raise CallError(f'no service port {port} found for service "{name}"')
        places = list(behind(self._store, self._registry, namespace, name, port))
        if not places:
            raise CallError(f'no endpoints available for service "{name}"')
        host, number = random.choice(places)
        return await self._post_within(host, number, f"{host}:{number}", url, question, body)

    async def _post_within(
        self, host: str, port: int, shown: str, url: str, question: Question, body: bytes
    ) -> Response:
        """Post to something that listens in the cluster's own network."""
        parts = urlsplit(url)
        try:
            server = self._fabric.find(host, port)
            chain = getattr(server, "certificate", b"")
            if not chain:
                raise CallError(PLAIN)
            if why := certificates.refusal(chain, _bundle(question.client), parts.hostname or "", self._clock.now()):
                raise CallError(f"tls: failed to verify certificate: x509: {why}")
            target = f"{parts.path}?{parts.query}" if parts.query else parts.path
            return await server.respond(Request("POST", target, {**HEADERS, "host": parts.netloc}, body))
        except NetworkError as error:
            raise CallError(f"dial tcp {shown}: {REASONS[error.kind]}") from error


def address(question: Question) -> str:
    """Return the URL to which a question is posted, as errors show it."""
    asked, query = question.client.get("service"), f"timeout={question.seconds:g}s"
    if asked is None:
        base = str(question.client.get("url", "")).partition("#")[0].partition("?")[0]
        return f"{base}{'' if urlsplit(base).path else '/'}?{query}"
    path = "/" + str(asked.get("path") or "/").lstrip("/")
    return f"https://{asked['name']}.{asked['namespace']}.svc:{asked.get('port') or PORT}{path}?{query}"


def _bundle(client: dict[str, object]) -> bytes:
    try:
        return base64.b64decode(str(client.get("caBundle") or ""))
    except binascii.Error:
        return b""


async def _post_outside(url: str, shown: str, bundle: bytes, sent: bytes) -> Response:
    """Post over the machine's own network."""
    try:
        context = ssl.create_default_context(cadata=bundle.decode("ascii", "replace") or None)
    except ssl.SSLError as error:
        raise CallError(UNTRUSTED) from error
    try:
        async with (
            ClientSession() as session,
            session.post(url, data=sent, headers=HEADERS, ssl=context, allow_redirects=False) as answer,
        ):
            body = await answer.content.read(LONGEST_ANSWER)
            return Response(answer.status, body, {"Content-Type": answer.headers.get("Content-Type", "")})
    except ClientConnectorCertificateError as error:
        raise CallError(_mistrust(error.certificate_error)) from error
    except ClientConnectorSSLError as error:
        raise CallError(PLAIN) from error
    except ClientConnectorDNSError as error:
        raise CallError(f"dial tcp: lookup {shown.rpartition(':')[0]}: no such host") from error
    except ClientConnectorError as error:
        raise CallError(f"dial tcp {shown}: connect: connection refused") from error
    except (ClientError, asyncio.IncompleteReadError) as error:
        raise CallError("EOF") from error


def _mistrust(error: Exception) -> str:
    """Return what Go says of a certificate that the bundle does not vouch for."""
    text = str(error)
    if "expired" in text:
        return "tls: failed to verify certificate: x509: certificate has expired or is not yet valid"
    if "mismatch" in text or "not valid for" in text:
        return f"tls: failed to verify certificate: x509: {text.partition('failed: ')[2] or text}"
    return UNTRUSTED


def _read(response: Response) -> Answer:
    """Read the review of an answer, or say why it is none as client-go does."""
    if not 200 <= response.status < 300:
        return Answer(error=_refused(response))
    try:
        review = orjson.loads(response.body)
    except orjson.JSONDecodeError:
        review = None
    if not isinstance(review, dict):
        return Answer(error=_undecodable(response.body))
    return Answer(review)


def _refused(response: Response) -> str:
    """Return the text of a status that is no success."""
    known = {404: "the server could not find the requested resource",
             400: "the server rejected our request for an unknown reason",
             403: "unknown", 429: "the server has received too many requests and has asked us to try again later",
             503: "the server is currently unable to handle the request"}  # fmt: skip
    plain = response.headers.get("Content-Type", "text/plain").startswith("text/")
    body = response.body.decode("utf-8", "replace").strip() if plain else ""
    return known.get(response.status) or (
        f'an error on the server ("{body or "unknown"}") has prevented the request from succeeding'
    )


def _undecodable(body: bytes) -> str:
    if not body.strip():
        return "unexpected end of JSON input"
    first = body.strip()[:1].decode("utf-8", "replace")
    why = f"invalid character '{first}' looking for beginning of value"
    return f"couldn't get version/kind; json parse error: {why}"


class Aggregator:
    """Finds and asks the servers behind APIServices; what is served here is never asked for elsewhere."""

    def __init__(self, store: Store, registry: Registry, fabric: Fabric) -> None:
        self._store = store
        self._registry = registry
        self._fabric = fabric

    def claimed(self, path: str) -> Obj | None:
        """Return the APIService whose server a path leads to; None for what is served here."""
        match path.split("/"):
            case ["", "apis", group, version, *_] if group and version:
                found = self._store.get(self._registry.by_resource(RESOURCE), "", f"{version}.{group}")
                return found if found is not None and self._is_remote(found) else None
        return None

    def remote(self) -> list[Obj]:
        """Return the APIServices of others, in the order in which clients are to prefer them."""
        found = [obj for obj in self._store.list(self._registry.by_resource(RESOURCE)) if self._is_remote(obj)]
        return sorted(found, key=_preference)

    def versions(self) -> list[GroupVersion]:
        """Return the groups and versions that others serve."""
        return [_group_version(obj) for obj in self.remote()]

    async def discovered(self) -> dict[GroupVersion, Obj]:
        """Return what the servers say of themselves, as the aggregated discovery shows it."""
        return {_group_version(obj): await self._discovered(obj) for obj in self.remote()}

    async def answer(self, request: web.Request, path: str, service: Obj, user: User) -> web.Response:
        """Pass a request on, as somebody who was authenticated here; 503 where nobody can answer it."""
        if not is_available(service):
            return _unavailable("service unavailable\n")
        query = f"?{request.rel_url.raw_query_string}" if request.rel_url.raw_query_string else ""
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            found = await self.ask(service, request.method, path + query, user, headers, await request.read())
        except NetworkError as error:
            address, port = self.address(service)
            return _unavailable(f"error trying to reach service: dial tcp {address}:{port}: {REASONS[error.kind]}\n")
        kept = {name: value for name, value in found.headers.items() if name.lower() not in HOP_BY_HOP}
        return web.Response(status=found.status, body=found.body, headers={**NO_CACHE, **kept})

    async def ask(
        self,
        service: Obj,
        method: str,
        target: str,
        user: User,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Response:
        """Send a request to the server of an APIService. Raises ``NetworkError``."""
        asked = Request(method, target, _headers(headers or {}, user), body)
        backend = service["spec"]["service"]
        place = backend["namespace"], backend["name"], backend.get("port", SERVICE_PORT)
        places = list(behind(self._store, self._registry, *place))
        if not places:
            raise NetworkError("refused")
        return await self._fabric.find(*random.choice(places)).respond(asked)

    async def pod_usage(self, namespace: str, selector: str) -> list[Obj]:
        """Return what metrics.k8s.io tells of the pods of a namespace. Raises what its client is told: 404, 503."""
        path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"
        service = self.claimed(path)
        if service is None:
            raise ApiError(404, "NotFound", f"the server could not find the requested resource {PODS}")
        if not is_available(service):
            raise ApiError(503, "ServiceUnavailable", f"the server is currently unable to handle the request {PODS}")
        try:
            found = await self.ask(service, "GET", f"{path}?labelSelector={quote(selector)}", SYSTEM)
        except NetworkError as error:
            why = f"the server is currently unable to handle the request {PODS}"
            raise ApiError(503, "ServiceUnavailable", why) from error
        document = orjson.loads(found.body) if found.status == 200 else {}
        items: list[Obj] = document.get("items") or []
        return items

    def address(self, service: Obj) -> tuple[str, int]:
        """Return the address and the port by which a server is known: those of its service."""
        asked = service["spec"]["service"]
        found = self._store.get(self._registry.by_resource("services"), asked["namespace"], asked["name"])
        return (found["spec"].get("clusterIP", "") if found else ""), asked.get("port", SERVICE_PORT)

    def _is_remote(self, service: Obj) -> bool:
        group_version = _group_version(service)
        return bool(service["spec"].get("service")) and not any(
            (kind.group, kind.version) == group_version for kind in self._registry.all()
        )

    async def _discovered(self, service: Obj) -> Obj:
        group, version = _group_version(service)
        try:
            found = (
                await self.ask(service, "GET", f"/apis/{group}/{version}", SYSTEM) if is_available(service) else None
            )
            document = orjson.loads(found.body) if found is not None and found.status == 200 else None
        except (NetworkError, orjson.JSONDecodeError):
            document = None
        listed = document.get("resources") if isinstance(document, dict) else None
        if not isinstance(listed, list):
            return {"version": version, "freshness": "Stale"}
        return {"version": version, "resources": _entries(listed, group, version), "freshness": "Current"}


def behind(store: Store, registry: Registry, namespace: str, name: str, port: int) -> Iterator[tuple[str, int]]:
    """Yield where the traffic to a service's port may go."""
    found = store.get(registry.by_resource("services"), namespace, name)
    ports = found["spec"].get("ports") or () if found else ()
    names = [entry.get("name", "") for entry in ports if entry["port"] == port]
    for piece in slices(store, registry, namespace, name):
        for endpoint in piece.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready", True):
                for entry in piece.get("ports") or ():
                    if (entry.get("name") or "") in names:
                        yield endpoint["addresses"][0], entry["port"]


def slices(store: Store, registry: Registry, namespace: str, name: str) -> list[Obj]:
    """Return the EndpointSlices of a service."""
    found = store.list(registry.by_resource(SLICES), namespace)
    return [obj for obj in found if (obj["metadata"].get("labels") or {}).get(OWNER) == name]


def is_available(service: Obj) -> bool:
    """Tell whether the server of an APIService was there when it was last looked for."""
    return is_true(service, "Available")


def _group_version(service: Obj) -> GroupVersion:
    return service["spec"].get("group", ""), service["spec"]["version"]


def _preference(service: Obj) -> tuple[int, int]:
    return -service["spec"]["groupPriorityMinimum"], -service["spec"]["versionPriority"]


def _headers(headers: Mapping[str, str], user: User) -> dict[str, str]:
    """Return the headers of a request that is passed on: its own say nothing about who asks."""
    dropped = HOP_BY_HOP | {"content-length"}
    kept = {
        name: value for name, value in headers.items() if name not in dropped and not name.startswith("x-remote-")
    }
    who = {"x-remote-user": user.name, "x-remote-group": ", ".join(user.groups)}
    extra = {f"x-remote-extra-{key.lower()}": ", ".join(values) for key, values in user.extra.items()}
    return kept | who | extra


def _entries(listed: list[Obj], group: str, version: str) -> list[Obj]:
    """Return the resources of a legacy document as the aggregated one has them."""
    found: dict[str, Obj] = {}
    for item in listed:
        name, _, part = str(item.get("name", "")).partition("/")
        own = {
            "group": item.get("group", group),
            "version": item.get("version", version),
            "kind": item.get("kind", ""),
        }
        if part and name in found:
            entry = {"subresource": part, "responseKind": own, "verbs": item.get("verbs") or []}
            found[name].setdefault("subresources", []).append(entry)
        elif not part:
            scope = "Namespaced" if item.get("namespaced") else "Cluster"
            found[name] = {"resource": name, "responseKind": own, "scope": scope}
            found[name] |= {"singularResource": item.get("singularName", ""), "verbs": item.get("verbs") or []}
            found[name] |= {key: item[key] for key in ("shortNames", "categories") if item.get(key)}
    return [*found.values()]


def _unavailable(text: str) -> web.Response:
    return web.Response(status=503, text=text, headers={**NO_CACHE, "X-Content-Type-Options": "nosniff"})
