"""Webhooks within the cluster: services, certificates, and what a Go client says of those that it does not trust."""

import base64
from datetime import UTC, datetime, timedelta

import pytest

from kubesim.api.callouts import Caller
from kubesim.api.operations import Operations
from kubesim.asking import Question
from kubesim.clock import ManualClock
from kubesim.network import certificates
from kubesim.network.fabric import Fabric, HttpServer, Response
from kubesim.pki import CertificateAuthority
from kubesim.store import Store

NOW = datetime(2026, 1, 5, 9, tzinfo=UTC)
NAME = "hook.default.svc"
AUTHORITY, OTHER = CertificateAuthority.create(NOW), CertificateAuthority.create(NOW)


def chain(authority=AUTHORITY, name=NAME):
    return authority.issue_server([name], NOW).certificate


@pytest.mark.parametrize(
    ("bundle", "name", "later", "said"),
    [
        (AUTHORITY.pem, NAME, timedelta(0), ""),
        (OTHER.pem, NAME, timedelta(0), "certificate signed by unknown authority"),
        (b"", NAME, timedelta(0), "certificate signed by unknown authority"),
        (b"no certificate", NAME, timedelta(0), "certificate signed by unknown authority"),
        (AUTHORITY.pem, "x.default.svc", timedelta(0), f"certificate is valid for {NAME}, not x.default.svc"),
        (AUTHORITY.pem, "10.0.0.1", timedelta(0),
         "cannot validate certificate for 10.0.0.1 because it doesn't contain any IP SANs"),
        (AUTHORITY.pem, NAME, timedelta(days=36500), "certificate has expired or is not yet valid: current time"),
    ],
)  # fmt: skip
def test_a_certificate_is_looked_at_as_go_does(bundle, name, later, said):
    found = certificates.refusal(chain(), bundle, name, NOW + later)
    assert found.startswith(said) if said else found == ""


class Hook(HttpServer):
    """A webhook that answers with its request."""

    certificate = chain()

    async def respond(self, request):
        return Response(200, request.body)


class Cluster:
    """A service with an endpoint, and who asks it."""

    def __init__(self):
        clock, self.fabric = ManualClock(NOW), Fabric()
        self.operations = Operations(Store(clock), clock)
        self.caller = Caller(self.operations.store, self.operations.registry, self.fabric, clock)
        self.create("namespaces", "", metadata={"name": "default"})

    def create(self, resource, namespace, **obj):
        self.operations.create(self.operations.registry.by_resource(resource), namespace, obj)

    def serve(self):
        self.create("services", "default", metadata={"name": "hook"}, spec={"ports": [{"port": 443}]})
        ports, endpoints = [{"port": 8443, "name": ""}], [{"addresses": ["10.64.0.9"]}]
        metadata = {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}}
        piece = {"addressType": "IPv4", "ports": ports, "endpoints": endpoints, "metadata": metadata}
        self.create("endpointslices.discovery.k8s.io", "default", **piece)
        self.fabric.attach("10.64.0.9")

    async def ask(self, bundle=AUTHORITY.pem, **client):
        asked = client or {"service": {"name": "hook", "namespace": "default", "path": "/x"}}
        asked["caBundle"] = base64.b64encode(bundle).decode()
        return await self.caller.ask(Question(asked, {"request": {"uid": "u"}}, 5.0))


URL = f'Post "https://{NAME}:443/x?timeout=5s": '


async def test_a_service_is_found_by_its_endpoints():
    cluster = Cluster()
    assert (await cluster.ask()).error == f'{URL}service "hook" not found'
    cluster.serve()
    assert (await cluster.ask()).error == f"{URL}dial tcp 10.64.0.9:8443: connect: connection refused"
    cluster.fabric.listen("10.64.0.9", 8443, Hook())
    assert (await cluster.ask()).review == {"request": {"uid": "u"}}
    assert "x509: certificate signed by unknown authority" in (await cluster.ask(OTHER.pem)).error


async def test_what_speaks_plain_http_is_no_webhook():
    cluster = Cluster()
    cluster.serve()
    cluster.fabric.listen("10.64.0.9", 8443, HttpServer())
    assert (await cluster.ask()).error == f"{URL}http: server gave HTTP response to HTTPS client"


async def test_a_url_leads_nowhere_outside_unless_the_cluster_may():
    cluster = Cluster()
    found = await cluster.ask(url="https://localhost:1/x")
    assert found.error == 'Post "https://localhost:1/x?timeout=5s": dial tcp: lookup localhost: no such host'
    found = await cluster.ask(url="https://127.0.0.1:1/x")
    assert found.error == 'Post "https://127.0.0.1:1/x?timeout=5s": dial tcp 127.0.0.1:1: i/o timeout'
