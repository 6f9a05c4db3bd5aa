import asyncio

import pytest

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


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


async def test_the_beta_of_aggregated_discovery_is_served_no_more(live):
    async with live.client(Accept=AGGREGATED.partition(",")[2]) as client, client.get("/apis") as response:
        assert (await response.json())["kind"] == "APIGroupList"


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
        async with client.get("/metrics/slis") as response:
            assert 'kubernetes_healthcheck{name="etcd",type="livez"} 1' in (await response.text()).splitlines()
    wanted = 'code="200",group="",resource="nodes",scope="cluster",subresource="",verb="LIST",version="v1"'
    assert any(wanted in line for line in lines)
    assert any(line.startswith('apiserver_storage_objects{resource="nodes"}') for line in lines)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/api/v1/unicorns", True),
        ("/apis/discovery.k8s.io/v1beta1/endpointslices", True),
        ("/apis/apps/v2", True),
        ("/apis/example.com/v1/unicorns", False),
        ("/unicorns", False),
    ],
)
async def test_only_groups_that_are_built_in_tell_of_a_missing_resource_as_a_status(live, path, told):
    async with live.client() as client, client.get(path) as response:
        text = await response.text()
    assert response.status == 404
    wanted = '"message":"the server could not find the requested resource","reason":"NotFound","details":{}'
    assert wanted in text if told else text == "404 page not found\n"


async def test_the_aggregated_document_names_a_kind_without_its_own_group(live):
    async with live.client(Accept=AGGREGATED) as client, client.get("/apis") as response:
        groups = {group["metadata"]["name"]: group for group in (await response.json())["items"]}
    version = groups["apps"]["versions"][0]
    assert list(version) == ["version", "resources", "freshness"]
    deployments = next(entry for entry in version["resources"] if entry["resource"] == "deployments")
    assert deployments["responseKind"] == {"group": "", "version": "", "kind": "Deployment"}
    scale = next(entry for entry in deployments["subresources"] if entry["subresource"] == "scale")
    assert scale["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}


async def test_the_root_lists_every_check_of_health_and_the_metrics(live):
    async with live.client() as client, client.get("/") as response:
        paths = (await response.json())["paths"]
    checks = {"/livez/ping", "/readyz/shutdown", "/healthz/poststarthook/rbac/bootstrap-roles"}
    assert checks | {"/metrics", "/metrics/slis"} <= set(paths)
    assert paths == sorted(paths)


async def test_the_metadata_of_a_custom_kind_are_explained(live):
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}
    spec = {"group": "x.example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"}}
    spec["versions"] = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    async with live.client() as client:
        body = {"metadata": {"name": "foos.x.example.com"}, "spec": spec}
        await client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=body)
        async with client.get("/openapi/v3/apis/x.example.com/v1") as response:
            schemas = (await response.json())["components"]["schemas"]
    told = schemas["com.example.x.v1.Foo"]["properties"]["metadata"]
    assert told["description"].startswith("Standard object's metadata. More info: ")


@pytest.mark.parametrize(
    "path", ["/api/v1/namespaces/default", "/api/v1/nodes", "/apis/apps/v1", "/api/v1/pods/none"]
)
async def test_tools_that_people_read_from_get_indented_answers_unless_they_ask_for_others(live, path):
    async with live.client() as client:

        async def text(agent, query=""):
            async with client.get(path + query, headers={"User-Agent": agent}) as response:
                return await response.text()

        assert (await text("curl/8.5.0")).startswith('{\n  "kind": "')
        assert (await text("curl/8.5.0")).endswith("\n}")
        assert "\n  " not in await text("curl/8.5.0", "?pretty=false")
        assert "\n  " not in await text("kubectl/v1.34.4")
        assert (await text("kubectl/v1.34.4", "?pretty=1")).startswith('{\n  "kind": "')
