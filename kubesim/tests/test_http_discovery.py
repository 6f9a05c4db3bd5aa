import asyncio

import pytest

from kubesim.tests.live import serving

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("live"), nodes=1) as live:
        yield live


@pytest.mark.parametrize("path", ["/version", "/version/", "/api", "/api/", "/apis/", "/api/v1/", "/apis/apps/v1/"])
async def test_it_answers_with_and_without_a_trailing_slash(live, path):
    async with live.client() as client, client.get(path) as response:
        assert response.status == 200
        assert response.content_type == "application/json"


async def test_legacy_discovery_lists_subresources_with_their_own_group(live):
    async with live.client() as client, client.get("/api/v1") as response:
        resources = {r["name"]: r for r in (await response.json())["resources"]}
    assert resources["pods"]["shortNames"] == ["po"]
    assert resources["pods/eviction"]["group"] == "policy"
    assert resources["serviceaccounts/token"]["kind"] == "TokenRequest"


async def test_aggregated_discovery_says_so_in_its_content_type(live):
    async with live.client(Accept=AGGREGATED) as client, client.get("/apis") as response:
        document = await response.json()
        assert response.headers["Content-Type"].endswith(";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
    apps = next(item for item in document["items"] if item["metadata"]["name"] == "apps")
    assert "deployments" in {r["resource"] for r in apps["versions"][0]["resources"]}


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_needs_no_credential(live, path):
    async with live.client(token="") as client, client.get(path) as response:
        assert (response.status, await response.text()) == (200, "ok")


async def test_the_certificate_names_only_the_public_host(live):
    _, writer = await asyncio.open_connection(live.url.split("//")[1].split(":")[0], live.port, ssl=live.trust())
    certificate = writer.get_extra_info("peercert")
    writer.close()
    await writer.wait_closed()
    assert certificate["subjectAltName"] == (("IP Address", "127.0.0.1"),)


async def test_health_tells_of_each_check(live):
    async with live.client() as client:
        async with client.get("/readyz?verbose&exclude=etcd&exclude=nope") as response:
            lines = (await response.text()).splitlines()
        assert lines[:3] == ["[+]ping ok", "[+]log ok", "[+]etcd excluded: ok"]
        assert "[+]poststarthook/rbac/bootstrap-roles ok" in lines
        assert lines[-2:] == [
            'warn: some health checks cannot be excluded: no matches for "nope"', "readyz check passed",
        ]  # fmt: skip
        checks = {"etcd": 200, "poststarthook/rbac/bootstrap-roles": 200, "x": 404}
        for check, code in checks.items():
            async with client.get(f"/livez/{check}") as response:
                assert response.status == code


async def test_metrics_count_requests_and_objects(live):
    async with live.client() as client:
        await client.get("/api/v1/nodes")
        async with client.get("/metrics") as response:
            lines = (await response.text()).splitlines()
    wanted = 'code="200",group="",resource="nodes",scope="cluster",subresource="",verb="LIST",version="v1"'
    assert any(wanted in line for line in lines)
    assert any(line.startswith('apiserver_storage_objects{resource="nodes"}') for line in lines)
