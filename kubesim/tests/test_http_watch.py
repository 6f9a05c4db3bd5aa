import asyncio

import orjson
import pytest

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture
async def client(live):
    async with live.client() as client:
        yield client


def config_map(name, **labels):
    return {"metadata": {"name": name, "labels": labels}, "data": {"a": "b"}}


async def version(client):
    async with client.get(MAPS) as response:
        return (await response.json())["metadata"]["resourceVersion"]


async def events(response, count):
    async with asyncio.timeout(30):
        return [orjson.loads(await response.content.readline()) for _ in range(count)]


async def test_it_streams_what_happens_after_a_version(client):
    start = await version(client)
    async with client.get(MAPS, params={"watch": "True", "resourceVersion": start}) as response:
        await client.post(MAPS, json=config_map("streamed"))
        await client.delete(f"{MAPS}/streamed")
        added, deleted = await events(response, 2)
    assert (added["type"], added["object"]["metadata"]["name"]) == ("ADDED", "streamed")
    assert deleted["type"] == "DELETED"
    assert int(deleted["object"]["metadata"]["resourceVersion"]) > int(added["object"]["metadata"]["resourceVersion"])


async def test_objects_that_enter_and_leave_a_selector_are_added_and_deleted(client):
    await client.post(MAPS, json=config_map("turncoat", team="red"))
    params = {"watch": "1", "resourceVersion": await version(client), "labelSelector": "team=blue"}
    headers = {"Content-Type": "application/merge-patch+json"}
    async with client.get(MAPS, params=params) as response:
        for team in ("blue", "red"):
            patch = orjson.dumps({"metadata": {"labels": {"team": team}}})
            await client.patch(f"{MAPS}/turncoat", data=patch, headers=headers)
        entered, left = await events(response, 2)
    assert [entered["type"], left["type"]] == ["ADDED", "DELETED"]
    assert left["object"]["metadata"]["labels"] == {"team": "blue"}


async def test_initial_events_end_with_a_marked_bookmark(client):
    params = {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "fieldSelector": "metadata.name=kube-root-ca.crt",
    }
    async with client.get(MAPS, params=params) as response:
        added, bookmark = await events(response, 2)
    assert added["type"] == "ADDED"
    assert bookmark["type"] == "BOOKMARK"
    annotations = bookmark["object"]["metadata"]["annotations"]
    assert annotations["k8s.io/initial-events-end"] == "true"


async def test_a_table_watch_sends_the_columns_once(client):
    params = {"watch": "1", "resourceVersion": "0"}
    await client.post(MAPS, json=config_map("second"))
    async with client.get(MAPS, params=params, headers={"Accept": TABLE}) as response:
        first, second = await events(response, 2)
    assert [c["name"] for c in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["object"]["columnDefinitions"] is None
    assert len(first["object"]["rows"]) == 1


async def test_a_forgotten_version_is_expired(live, client):
    live.ask(lambda cluster: setattr(cluster.store, "_floor", cluster.store.resource_version))
    async with client.get(MAPS, params={"watch": "1", "resourceVersion": "1"}) as response:
        (error,) = await events(response, 1)
        assert await response.content.read() == b""
    assert (error["type"], error["object"]["code"], error["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert error["object"]["message"].startswith("too old resource version: 1 (")


async def test_it_ends_after_timeout_seconds_with_a_bookmark(client):
    start = await version(client)
    params = {"watch": "1", "timeoutSeconds": "1", "resourceVersion": start, "allowWatchBookmarks": "true"}
    async with asyncio.timeout(30), client.get(MAPS, params=params) as response:
        lines = (await response.content.read()).splitlines()
    assert [orjson.loads(line)["type"] for line in lines] == ["BOOKMARK"]


async def test_a_client_that_leaves_is_forgotten(live, client):
    async with client.get(MAPS, params={"watch": "1"}) as response:
        await events(response, 1)
        assert live.ask(lambda cluster: cluster.guard.streams) >= 1
    async with asyncio.timeout(30):
        while live.ask(lambda cluster: cluster.guard.streams):
            await asyncio.sleep(0.01)


async def test_lists_come_in_pages(client):
    for number in range(3):
        await client.post(MAPS, json=config_map(f"page-{number}", set="pages"))
    names, params = [], {"limit": "2", "labelSelector": "set=pages"}
    while True:
        async with client.get(MAPS, params=params) as response:
            page = await response.json()
        names.append([item["metadata"]["name"] for item in page["items"]])
        if not page["metadata"].get("continue"):
            break
        params["continue"] = page["metadata"]["continue"]
    assert names == [["page-0", "page-1"], ["page-2"]]


async def test_a_client_that_stops_reading_loses_its_stream_and_slows_nobody(live, client):
    start, before = await version(client), live.ask(lambda cluster: cluster.guard.streams)
    host = live.url.removeprefix("https://").partition(":")[0]
    _, lazy = await asyncio.open_connection(host, live.port, ssl=live.trust(), limit=1024)
    path = f"{MAPS}?watch=1&resourceVersion={start}"
    lazy.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {live.token}\r\n\r\n".encode())
    big, rounds = "x" * 900_000, 40
    async with client.get(MAPS, params={"watch": "1", "resourceVersion": start}) as eager:
        await client.post(MAPS, json=config_map("big"))
        for at in range(rounds):
            patch = orjson.dumps({"data": {"a": f"{at}{big}"}})
            headers = {"Content-Type": "application/merge-patch+json"}
            async with client.patch(f"{MAPS}/big", data=patch, headers=headers) as response:
                assert response.status == 200
            async with asyncio.timeout(30):
                while b"\n" not in await eager.content.readany():
                    pass
        assert live.ask(lambda cluster: cluster.guard.streams) == before + 1
    lazy.transport.abort()
    await client.delete(f"{MAPS}/big")
