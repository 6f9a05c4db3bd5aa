"""The host: control API, isolation, deadlines, restarts."""

import asyncio
import ssl
from contextlib import asynccontextmanager
from datetime import timedelta
from unittest.mock import ANY

import pytest
import yaml

from kubesim.clock import RealClock
from kubesim.serve import Address, many
from kubesim.tests.live import session, trust_of
from kubesim.times import micro


@asynccontextmanager
async def control(folder, bind="127.0.0.1", port=0):
    """Run a host and yield (session of the control API, host)."""
    async with many(Address(bind, port), folder, RealClock()) as (host, url, token):
        context = trust_from(folder)
        async with session(url, context, token) as client:
            yield client, host


def trust_from(folder):
    return ssl.create_default_context(cafile=str(folder / "ca.crt"))


async def make(client, **fields):
    async with client.post(
        "/control/clusters", json=fields if "from" in fields else {"nodes": 1, **fields}
    ) as response:
        return response.status, await response.json()


async def test_making_a_cluster_twice_gives_the_same_answer(tmp_path):
    async with control(tmp_path) as (client, _):
        first = await make(client, name="a")
        second = await make(client, name="a")
        async with client.get("/control/health") as response:
            assert await response.json() == {"status": "ok", "clusters": 1}
    assert (first[0], second[0]) == (201, 200)
    assert first[1] == second[1]
    assert first[1]["server"].endswith("/clusters/a")
    assert (tmp_path / "ca.key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "control-token").stat().st_mode & 0o777 == 0o600


async def test_clusters_are_isolated_and_the_control_api_is_not_for_them(tmp_path):
    async with control(tmp_path) as (client, _):
        _, one = await make(client, name="one")
        _, two = await make(client, name="two")
        token = yaml.safe_load(one["kubeconfig"])["users"][0]["user"]["token"]
        base = one["server"].removesuffix("/clusters/one")
        assert two["server"] == f"{base}/clusters/two"
        async with session(base, trust_of(one["kubeconfig"]), token) as user:
            async with user.get("/clusters/one/api/v1/nodes") as response:
                assert response.status == 200
            async with user.get("/clusters/two/api/v1/nodes") as response:
                assert response.status == 401
            async with user.get("/control/clusters") as response:
                assert response.status == 401
        async with client.get("/control/clusters/one/activity") as response:
            users = (await response.json())["users"]
    assert users["kubernetes-admin"]["requests"] == 1


async def test_a_dropped_cluster_is_gone_and_dropping_it_again_is_404(tmp_path):
    async with control(tmp_path) as (client, _):
        await make(client, name="a")
        async with client.delete("/control/clusters/a") as response:
            assert response.status == 200
        async with client.delete("/control/clusters/a") as response:
            assert response.status == 404
        async with client.get("/clusters/a/api") as response:
            assert response.status == 404
    assert not (tmp_path / "clusters" / "a").exists()


async def test_a_cluster_is_dropped_at_its_deadline(tmp_path):
    async with control(tmp_path) as (client, host):
        soon = micro(RealClock().now() + timedelta(seconds=0.3))
        await make(client, name="a", deadline=soon)
        async with asyncio.timeout(30):
            while host.clusters:
                await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("body", "code", "word"),
    [
        (b"{", 400, "JSON"),
        (b"[]", 400, "JSON"),
        (b"{}", 422, "name"),
        (b'{"name":"A b"}', 422, "name"),
        (b'{"name":"../x"}', 422, "name"),
        (b'{"name":"a","nodes":-1}', 422, "nodes"),
        (b'{"name":"a","nodes":true}', 422, "nodes"),
        (b'{"name":"a","gpus":"8"}', 422, "gpus"),
        (b'{"name":"a","deadline":"soon"}', 422, "deadline"),
        (b'{"name":"a","deadline":"2020-01-01T00:00:00Z"}', 422, "deadline"),
        (b'{"name":"a","deadline":"9999-12-31T23:59:59-14:00"}', 422, "deadline"),
        (b'{"name":"a","addons":["toaster"]}', 422, "addons"),
        (b'{"name":"a","addons":[{}]}', 422, "addons"),
        (b'{"name":"a","colour":"red"}', 422, "colour"),
        (b'{"name":"a","from":"b"}', 404, "no cluster named"),
        (b'{"name":"a","from":"b","nodes":1}', 422, "nodes: leave it out"),
        (b'{"name":"a","from":"b","recording":"yes"}', 422, "recording"),
        (b'{"name":"a","from":"b","at":"noon"}', 422, "at: give"),
    ],
)
async def test_a_bad_request_is_answered_with_a_sentence(tmp_path, body, code, word):
    async with control(tmp_path) as (client, host):
        async with client.post("/control/clusters", data=body) as response:
            assert response.status == code
            assert word in (await response.json())["error"]
        assert not host.clusters


async def test_a_cluster_is_made_with_the_addons_that_are_asked_for(tmp_path):
    async with control(tmp_path) as (client, host):
        await make(client, name="a", addons=["coredns"])
        assert host.get("a").store.get(
            host.get("a").operations.registry.by_resource("services"), "kube-system", "kube-dns"
        )


async def test_a_cluster_begins_where_another_was_to_go_on_or_to_be_read(tmp_path):
    async with control(tmp_path) as (client, host):
        await make(client, name="a", nodes=1)
        there = host.get("a")._client("somebody")
        await there.create("configmaps", {"metadata": {"name": "early"}}, namespace="default")
        await host._tenants["a"].saver.save()
        async with client.get("/control/clusters/a/history") as response:
            moment = (await response.json())["to"]
        await there.create("configmaps", {"metadata": {"name": "late"}}, namespace="default")
        found = {}
        for name, more in {"then": {"at": moment}, "now": {}, "film": {"at": moment, "recording": True}}.items():
            status, _ = await make(client, name=name, **{"from": "a"}, **more)
            assert status == 201
            stored = host.get(name).store.list(
                host.get(name).operations.registry.by_resource("configmaps"), "default"
            )
            found[name] = {obj["metadata"]["name"] for obj in stored} - {"kube-root-ca.crt"}
        assert found == {"then": {"early"}, "now": {"early", "late"}, "film": {"early"}}
        assert await make(client, name="now", **{"from": "a"}) == (409, {"error": ANY})
        tokens = {cluster._keys.admin_token for cluster in host.clusters.values()}
        assert len(tokens) == 4
    async with control(tmp_path) as (_, host):
        assert sorted(host.clusters) == ["a", "now", "then"]


async def test_everything_survives_a_restart(tmp_path):
    async with control(tmp_path) as (client, host):
        _, made = await make(client, name="a")
        port = host._port
        maps = "/clusters/a/api/v1/namespaces/default/configmaps"
        token = yaml.safe_load(made["kubeconfig"])["users"][0]["user"]["token"]
        bearer = {"Authorization": f"Bearer {token}"}
        async with client.post(maps, json={"metadata": {"name": "kept"}}, headers=bearer) as response:
            assert response.status == 201
    async with control(tmp_path, port=port) as (client, _):
        async with client.get(f"{maps}/kept", headers=bearer) as response:
            assert response.status == 200
        async with client.get("/control/clusters/a") as response:
            assert await response.json() == made


async def test_on_another_address_nothing_says_localhost(tmp_path):
    async with control(tmp_path, bind="127.0.0.2") as (client, host):
        _, made = await make(client, name="a")
        _, writer = await asyncio.open_connection("127.0.0.2", host._port, ssl=trust_from(tmp_path))
        names = writer.get_extra_info("peercert")["subjectAltName"]
        writer.close()
        await writer.wait_closed()
    assert names == (("IP Address", "127.0.0.2"),)
    assert "127.0.0.1" not in str(made)
    assert "localhost" not in str(made)


async def test_many_who_make_the_same_cluster_at_once_get_the_same_one(tmp_path):
    async with control(tmp_path) as (client, host):
        answers = await asyncio.gather(*(make(client, name="a") for _ in range(8)))
        assert sorted(code for code, _ in answers) == [200] * 7 + [201]
        assert len({answer["kubeconfig"] for _, answer in answers}) == 1
        assert len(host.clusters) == 1


async def test_a_token_that_is_no_text_is_refused_as_any_other(tmp_path):
    async with many(Address("127.0.0.1", 0), tmp_path, RealClock()) as (_, url, _):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(url.rpartition(":")[2]), ssl=trust_from(tmp_path)
        )
        writer.write(b"GET /control/clusters HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \xff\xfe\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
        writer.close()
        await writer.wait_closed()
