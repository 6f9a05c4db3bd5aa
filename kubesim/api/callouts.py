"""Calls to webhooks: a service within the cluster, or a URL; what goes wrong is told as Go's clients tell it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import ipaddress
import random
import ssl
from urllib.parse import urlsplit

import orjson
from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientConnectorSSLError,
    ClientError,
    ClientSession,
)

from kubesim.api.aggregator import behind
from kubesim.asking import Answer, Question
from kubesim.clock import Clock, TooSlow, in_time
from kubesim.network import certificates
from kubesim.network.fabric import REASONS, Fabric, Request, Response
from kubesim.schema.registry import Registry
from kubesim.shell.errors import NetworkError
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
