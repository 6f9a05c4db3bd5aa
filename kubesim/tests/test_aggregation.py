"""Groups that other servers answer for: APIServices, whether their servers are there, and what is passed on."""

from __future__ import annotations

import orjson
import pytest
from aiohttp import ClientSession

from kubesim.errors import Obj
from kubesim.network.fabric import HttpServer, Request, Response
from kubesim.tests.live import Live

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
DOCUMENT = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": "toys.example.com/v1",
    "resources": [
        {"name": "toys", "singularName": "toy", "namespaced": True, "kind": "Toy", "verbs": ["get", "list"]}
    ],
}
AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}


class Toys(HttpServer):
    """Answers with what it is asked."""

    def __init__(self, status: int = 200) -> None:
        self.status = status

    async def respond(self, request: Request) -> Response:
        answer = DOCUMENT if request.path == "/apis/toys.example.com/v1" else {"target": request.target}
        return Response(self.status, orjson.dumps({**answer, "headers": dict(request.headers)}))


def api_service(name: str, group: str = "toys.example.com", port: int = 443) -> Obj:
    spec = {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100}
    spec |= {"insecureSkipTLSVerify": True, "service": {"name": name, "namespace": "default", "port": port}}
    head = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
    return {**head, "metadata": {"name": f"v1.{group}"}, "spec": spec}


async def post(client: ClientSession, path: str, obj: Obj) -> None:
    async with client.post(path, json=obj) as answer:
        assert answer.status == 201, await answer.text()


async def serve(client: ClientSession, address: str) -> None:
    """Create a service and an endpoint behind it."""
    spec = {"ports": [{"name": "https", "port": 443, "targetPort": 8443}]}
    await post(client, "/api/v1/namespaces/default/services", {"metadata": {"name": "toys"}, "spec": spec})
    piece = {
        "metadata": {"name": "toys-1", "labels": {"kubernetes.io/service-name": "toys"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": 8443, "protocol": "TCP"}],
    }
    await post(client, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", piece)


async def condition(client: ClientSession, reason: str, name: str = "v1.toys.example.com") -> Obj:
    """Wait until an APIService is available, or not, for a reason; return the condition."""
    query = {"watch": "true", "fieldSelector": f"metadata.name={name}", "timeoutSeconds": "5"}
    seen = []
    async with client.get(SERVICES, params=query) as stream:
        async for line in stream.content:
            for found in orjson.loads(line)["object"].get("status", {}).get("conditions") or ():
                seen.append(found["reason"])
                if found["reason"] == reason:
                    return found
    raise AssertionError(f"{reason} was awaited, {seen} came")


@pytest.fixture
async def client(live: Live):
    async with live.client() as session:
        yield session
        await session.delete(f"{SERVICES}/v1.toys.example.com")
        await session.delete("/api/v1/namespaces/default/services/toys")
        await session.delete("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/toys-1")


async def test_an_api_service_says_that_its_service_is_missing(client):
    await post(client, SERVICES, api_service("toys"))
    found = await condition(client, "ServiceNotFound")
    assert (found["status"], found["message"]) == ("False", 'service/toys in "default" is not present')


async def test_an_api_service_without_a_service_is_local(client):
    local = api_service("toys")
    del local["spec"]["service"], local["spec"]["insecureSkipTLSVerify"]
    await post(client, SERVICES, local)
    assert (await condition(client, "Local"))["message"] == "Local APIServices are always available"


async def test_an_api_service_says_that_nobody_stands_behind_its_service(client):
    spec = {"selector": {"app": "nobody"}, "ports": [{"name": "https", "port": 443}]}
    await post(client, "/api/v1/namespaces/default/services", {"metadata": {"name": "toys"}, "spec": spec})
    await post(client, SERVICES, api_service("toys"))
    found = await condition(client, "MissingEndpoints")
    assert found["message"] == 'endpointslices for service/toys in "default" have no addresses with port name "https"'


async def test_an_api_service_says_that_its_service_has_no_such_port(client):
    await serve(client, "10.9.9.9")
    await post(client, SERVICES, api_service("toys", port=8080))
    found = await condition(client, "ServicePortError")
    assert found["message"] == 'service/toys in "default" is not listening on port 8080'


async def test_an_api_service_tells_how_the_discovery_failed(live, client):
    live.ask(lambda cluster: cluster.nodes.fabric.listen("10.9.9.8", 8443, Toys(500)))
    await serve(client, "10.9.9.8")
    await post(client, SERVICES, api_service("toys"))
    message = (await condition(client, "FailedDiscoveryCheck"))["message"]
    assert message.startswith("failing or missing response from https://10.96.")
    assert message.endswith(":443/apis/toys.example.com/v1: 500")


async def test_a_server_that_listens_only_later_is_found_long_before_half_a_minute(live, client):
    server = Toys(500)
    live.ask(lambda cluster: cluster.nodes.fabric.listen("10.9.9.7", 8443, server))
    await serve(client, "10.9.9.7")
    await post(client, SERVICES, api_service("toys"))
    await condition(client, "FailedDiscoveryCheck")
    server.status = 200
    assert (await condition(client, "Passed"))["status"] == "True"


async def test_an_unavailable_server_is_answered_for_in_plain_words(client):
    await post(client, SERVICES, api_service("toys"))
    await condition(client, "ServiceNotFound")
    async with client.get("/apis/toys.example.com/v1/toys") as answer:
        assert (answer.status, await answer.text()) == (503, "service unavailable\n")
    async with client.get("/apis", headers=AGGREGATED) as answer:
        (group,) = [item for item in (await answer.json())["items"] if item["metadata"]["name"] == "toys.example.com"]
        assert group["versions"] == [{"version": "v1", "freshness": "Stale"}]


async def test_a_request_reaches_the_server_with_the_name_of_who_asks(live, client):
    live.ask(lambda cluster: cluster.nodes.fabric.listen("10.9.9.7", 8443, Toys()))
    await serve(client, "10.9.9.7")
    await post(client, SERVICES, api_service("toys"))
    assert (await condition(client, "Passed"))["message"] == "all checks passed"
    path = "/apis/toys.example.com/v1/namespaces/default/toys?limit=5"
    async with client.get(path, headers={"X-Remote-User": "somebody-else"}) as answer:
        found = orjson.loads(await answer.read())
    assert found["target"] == path
    assert found["headers"]["x-remote-user"] == "kubernetes-admin"
    assert "system:masters" in found["headers"]["x-remote-group"]
    assert "authorization" not in found["headers"]
    async with client.get("/apis", headers=AGGREGATED) as answer:
        (group,) = [item for item in (await answer.json())["items"] if item["metadata"]["name"] == "toys.example.com"]
        assert [entry["resource"] for entry in group["versions"][0]["resources"]] == ["toys"]
    async with client.get("/apis") as answer:
        assert "toys.example.com" in [group["name"] for group in (await answer.json())["groups"]]


async def test_who_may_not_is_refused_before_anything_is_passed_on(live, client):
    await post(client, SERVICES, api_service("toys"))
    async with client.get("/apis/toys.example.com/v1/toys", headers={"Impersonate-User": "nobody"}) as answer:
        assert answer.status == 403


async def test_what_is_served_here_is_never_asked_for_elsewhere(client):
    async with client.get(f"{SERVICES}/v1.apps") as answer:
        apps = await answer.json()
    apps["spec"] |= {"service": {"name": "toys", "namespace": "default"}, "insecureSkipTLSVerify": True}
    async with client.put(f"{SERVICES}/v1.apps", json=apps) as answer:
        assert answer.status == 200, await answer.text()
    async with client.get("/apis/apps/v1/deployments") as answer:
        assert answer.status == 200
