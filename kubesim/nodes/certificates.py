"""Certificates as a kubelet gets them: a request to the cluster, approved by whoever may, signed by its controller.

The client certificate names ``system:node:NAME`` of ``system:nodes``: the Node authorizer and NodeRestriction then
allow a node what is its own, and nothing else. That is upstream's TLS bootstrapping, and no right could be smaller.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubesim.client import Client
from kubesim.clock import Clock
from kubesim.errors import ApiError, Obj
from kubesim.informer import cancel
from kubesim.pki import general_name

REQUESTS = "certificatesigningrequests.certificates.k8s.io"
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING_SIGNER = "kubernetes.io/kubelet-serving"
GROUP = "system:nodes"
APPROVED = {"type": "Approved", "status": "True", "reason": "SimulatedNode"}


class NotSigned(Exception):
    """The cluster gave no certificate; the message says why."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a certificate is to say. ``label`` marks the request as one of ours."""

    name: str
    node: str
    signer: str
    usage: str
    labels: dict[str, str]
    hosts: Collection[str] = ()

    def document(self, key: ec.EllipticCurvePrivateKey) -> Obj:
        """Return the CertificateSigningRequest."""
        asked = base64.b64encode(self._request(key)).decode()
        return {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": self.name, "labels": self.labels},
            "spec": {"request": asked, "signerName": self.signer, "usages": ["digital signature", self.usage]},
        }

    def _request(self, key: ec.EllipticCurvePrivateKey) -> bytes:
        subject = [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, GROUP),
            x509.NameAttribute(NameOID.COMMON_NAME, user_of(self.node)),
        ]
        builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
        if self.hosts:
            names = x509.SubjectAlternativeName([general_name(host) for host in self.hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def client_request(name: str, node: str, labels: dict[str, str]) -> Request:
    """Return the request for a node's client certificate."""
    return Request(name, node, CLIENT_SIGNER, "client auth", labels)


def serving_request(name: str, node: str, labels: dict[str, str], hosts: Collection[str]) -> Request:
    """Return the request for the certificate that a node's kubelet shows; only the node itself may make it."""
    return Request(name, node, SERVING_SIGNER, "server auth", labels, hosts)


def user_of(node: str) -> str:
    """Return a node's user name."""
    return f"system:node:{node}"


async def obtain(asking: Client, approving: Client, request: Request, seconds: float, *, patient: bool) -> bytes:
    """Return a certificate and its key (PEM), within so many seconds. Raises ``NotSigned`` and ``ApiError``.

    ``approving`` may lack the right: then somebody else, or the cluster by itself, has to approve in that time.
    Who is not ``patient`` does not wait for that.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    made = await asking.create(REQUESTS, request.document(key))
    approved = await _approve(approving, made)
    if not approved and not patient:
        raise NotSigned(f"the request {request.name} ({request.signer}) was approved by nobody")
    try:
        async with asyncio.timeout(seconds):
            certificate = await _signed(asking, made)
    except TimeoutError:
        who = "was approved but not signed" if approved else "was approved by nobody"
        raise NotSigned(f"the request {request.name} ({request.signer}) {who} within {seconds:.0f} s") from None
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate + b"\n" + pem


async def _approve(client: Client, request: Obj) -> bool:
    """Approve a request; False where the user may not."""
    try:
        status = {**request.get("status", {}), "conditions": [APPROVED | {"message": "Approved by kubesim nodes."}]}
        await client.update(REQUESTS, {**request, "status": status}, subresource="approval")
    except ApiError as error:
        if error.code == 403:
            return False
        if error.code != 409:  # somebody else was faster
            raise
    return True


async def _signed(client: Client, request: Obj) -> bytes:
    """Return the certificate as soon as it is there. Raises ``NotSigned`` for a request that is refused."""
    name = request["metadata"]["name"]
    while True:
        latest = await client.get(REQUESTS, name)
        if found := _certificate(latest):
            return found
        events = client.watch(
            REQUESTS, field_selector=f"metadata.name={name}", resource_version=latest["metadata"]["resourceVersion"]
        )
        async with aclosing(events):
            async for event in events:
                if event.type == "MODIFIED" and _certificate(event.object):
                    break


def _certificate(request: Obj) -> bytes:
    status = request.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["type"] in ("Denied", "Failed"):
            told = condition.get("message") or condition.get("reason") or ""
            raise NotSigned(f"the request {request['metadata']['name']} is {condition['type'].lower()}: {told}")
    return base64.b64decode(status.get("certificate") or "")


SHARE = 0.8
SHORTEST_S, LONGEST_S = 60.0, 30 * 24 * 3600.0
"""The waits before a try: not longer than a month, for the sake of the clock's own precision."""
log = logging.getLogger(__name__)


def end_of(pem: bytes) -> datetime:
    """Return when a certificate ends."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc


class Renewal:
    """Calls ``renew``, which returns the next end, in time before ``until``; a failure is tried again."""

    def __init__(self, clock: Clock, until: datetime, renew: Callable[[], Awaitable[datetime]]) -> None:
        self._clock = clock
        self._renew = renew
        self._task = asyncio.create_task(self._run(until), name="renewal")

    async def stop(self) -> None:
        """Renew no more."""
        await cancel(self._task)

    async def _run(self, until: datetime) -> None:
        while True:
            due = (until - self._clock.now()).total_seconds() * SHARE
            await self._clock.sleep(min(max(due, SHORTEST_S), LONGEST_S))
            if due > LONGEST_S:
                continue
            try:
                until = await self._renew()
            except (ApiError, ConnectionError, NotSigned) as error:
                log.warning("a certificate was not renewed: %s", error)
