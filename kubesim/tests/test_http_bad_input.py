"""Whatever is sent, the answer is a Status (or upstream's plain 404), and never a 500."""

import io

import pytest

MAPS = "/api/v1/namespaces/default/configmaps"
DEEP = b'{"metadata":{"name":"x"},"data":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b"}"
BODIES = {
    "nothing": b"",
    "half an object": b'{"kind":"ConfigMap","metadata":{"na',
    "a list": b"[]",
    "a number": b"1",
    "null": b"null",
    "bad UTF-8": b'{"metadata":{"name":"\xff\xfe"}}',
    "very deep": DEEP,
    "deep, but readable": DEEP.replace(b'{"a":' * 10_000, b'{"a":' * 600).replace(b"}" * 10_000, b"}" * 600),
    "metadata of a wrong type": b'{"metadata":5}',
    "a name of a wrong type": b'{"metadata":{"name":{"a":1}}}',
    "data of a wrong type": b'{"metadata":{"name":"x"},"data":[1,2]}',
    "another kind": b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}',
    "labels of a wrong type": b'{"metadata":{"name":"x","labels":[]}}',
    "no name": b'{"metadata":{}}',
}


async def status_of(response):
    body = await response.json()
    assert body["kind"] == "Status"
    assert body["code"] == response.status
    assert body["message"]
    return body


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
async def test_a_bad_body_is_the_clients_mistake(live, body):
    async with live.client() as client, client.post(MAPS, data=body) as response:
        assert 400 <= response.status < 500, await response.text()
        await status_of(response)


@pytest.mark.parametrize(
    "body", [b"", b"k8s\x00", b"k8s\x00\xff\xff", b"k8s\x00\x0a\x05hello", b"{}", b"k8s\x00" + b"\x0a" * 999]
)
async def test_bad_protobuf_is_the_clients_mistake(live, body):
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    async with live.client() as client, client.post(MAPS, data=body, headers=headers) as response:
        assert response.status in (400, 422), await response.text()
        await status_of(response)


async def test_a_body_over_three_mebibytes_is_refused(live):
    async with live.client() as client, client.post(MAPS, data=io.BytesIO(b" " * (4 << 20))) as response:
        assert response.status == 413
        assert (await status_of(response))["reason"] == "RequestEntityTooLarge"


async def test_an_unknown_content_type_is_415(live):
    headers = {"Content-Type": "application/cbor"}
    async with live.client() as client, client.post(MAPS, data=b"x", headers=headers) as response:
        assert response.status == 415


@pytest.mark.parametrize("media", ["json-patch", "merge-patch", "strategic-merge-patch"])
@pytest.mark.parametrize(
    "body", [b"", b"5", b'"x"', b"{", b'[{"op":"nonsense"}]', b'[{"op":"add","path":"x"}]', b"[5]"]
)
async def test_a_bad_patch_is_the_clients_mistake(live, media, body):
    headers = {"Content-Type": f"application/{media}+json"}
    path = f"{MAPS}/kube-root-ca.crt"
    async with live.client() as client, client.patch(path, data=body, headers=headers) as response:
        assert 400 <= response.status < 500, await response.text()
        await status_of(response)


@pytest.mark.parametrize(
    "query",
    [
        "limit=many",
        "labelSelector=a%3D%3D%3Db",
        "labelSelector=%21%21",
        "fieldSelector=nonsense",
        "fieldSelector=spec.nothing%3D1",
        "resourceVersion=abc",
        "continue=@@@",
        "watch=1&timeoutSeconds=soon",
        "watch=1&resourceVersion=x",
        "watch=1&sendInitialEvents=true",
        "resourceVersionMatch=Odd",
    ],
)
async def test_a_bad_query_is_the_clients_mistake(live, query):
    async with live.client() as client, client.get(f"/api/v1/namespaces/default/pods?{query}") as response:
        assert response.status in (400, 422), await response.text()
        await status_of(response)


async def test_a_version_from_the_future_is_told_to_wait(live):
    async with live.client() as client, client.get("/api/v1/pods?resourceVersion=99999999") as response:
        assert response.status == 504
        assert "Too large resource version: 99999999, current:" in (await status_of(response))["message"]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/namespaces/default/unicorns", 404),
        ("GET", "/apis/nothing.io/v1/things", 404),
        ("GET", "/api/v1/namespaces/default/pods/none", 404),
        ("GET", "/api/v1/namespaces/default/configmaps/kube-root-ca.crt/status", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/nonsense", 404),
        ("POST", "/api/v1/namespaces/default/pods/none", 405),
        ("PUT", "/api/v1/namespaces/default/pods", 405),
        ("POST", "/version", 405),
        ("DELETE", "/api/v1/namespaces", 405),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 405),
    ],
)
async def test_paths_and_methods_that_do_not_exist(live, method, path, code):
    async with live.client() as client, client.request(method, path) as response:
        assert response.status == code, await response.text()


async def test_it_refuses_a_media_type_that_it_cannot_send(live):
    async with live.client(Accept="image/png") as client, client.get("/api/v1/pods") as response:
        assert response.status == 406
