"""The client: what it asks, and what it makes of every kind of refusal."""

from __future__ import annotations

import json
import socket

import pytest

from faults import errors, heartbeat
from faults.kube.client import MAX_TRIES, Kube
from faults.kube.config import Access
from faults.tests.scripted import ScriptedServer, status

CASES = [
    (400, "BadRequest", errors.Invalid, False),
    (401, "Unauthorized", errors.Unauthorized, True),
    (403, "Forbidden", errors.Forbidden, False),
    (404, "NotFound", errors.NotFound, False),
    (409, "AlreadyExists", errors.AlreadyExists, False),
    (409, "Conflict", errors.Conflict, False),
    (410, "Expired", errors.Expired, False),
    (422, "Invalid", errors.Invalid, False),
    (429, "TooManyRequests", errors.Unreachable, True),
    (500, "InternalError", errors.Unreachable, True),
    (503, "ServiceUnavailable", errors.Unreachable, True),
]
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}}


@pytest.mark.parametrize(("code", "reason", "error", "retryable"), CASES)
def test_a_refusal_becomes_one_of_our_errors_with_its_message(code, reason, error, retryable):
    refusal = (code, {}, [status(code, reason, "because")])
    with (
        ScriptedServer(lambda *request: refusal) as server,
        pytest.raises(errors.ClusterError, match="because") as caught,
    ):
        server.kube.create(POD)
    assert type(caught.value) is error
    assert caught.value.retryable is retryable


@pytest.mark.parametrize("body", [b"<html>bad gateway</html>", b"", b"[1]", b"\xff\xfe"])
def test_an_answer_that_is_no_status_still_becomes_one_of_our_errors(body):
    refusal = (502, {}, [body] if body else [])
    with ScriptedServer(lambda *request: refusal) as server, pytest.raises(errors.Unreachable, match="502"):
        server.kube.create(POD)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{"])
def test_a_success_that_is_no_object_is_not_believed(body):
    with ScriptedServer(lambda *request: (200, {}, [body])) as server, pytest.raises(errors.Unreachable):
        server.kube.get("v1", "Pod", "p", "a")


def test_it_follows_no_redirect():
    elsewhere = (302, {"Location": "http://127.0.0.1:1/steal"}, [])
    with ScriptedServer(lambda *request: elsewhere) as server, pytest.raises(errors.ClusterError, match="302"):
        server.kube.get("v1", "Pod", "p", "a")
    assert [path for _, path, _ in server.requests] == ["/api/v1", "/api/v1/namespaces/a/pods/p"]


def failing(first: int, *answers):
    """Answer the first so many requests of each method badly, one way after the other, and the rest well."""
    asked: dict[str, int] = {}

    def answer(method, path, query):
        asked[method] = asked.get(method, 0) + 1
        return answers[asked[method] % len(answers)] if asked[method] <= first else (200, {}, [b"{}"])

    return answer


TROUBLE = [
    (429, {"Retry-After": "1"}, [b"{}"]),
    (500, {}, [b"{}"]),
    (503, {}, [b"<html>"]),
    (200, {}, [b"<html>"]),
    (200, {}, [b'{"kind": "Po']),
    (200, {}, None),
]


@pytest.mark.parametrize("trouble", TROUBLE)
def test_reads_and_writes_are_repeated(trouble):
    with ScriptedServer(failing(2, trouble)) as server:
        assert server.kube.get("v1", "Pod", "p", "a") == {}
        assert server.kube.create(POD) == {}
        assert server.kube.patch("v1", "Pod", "p", "a", {"x": 1}) == {}
        server.kube.delete("v1", "Pod", "p", "a")
    methods = [method for method, path, _ in server.requests if path != "/api/v1"]
    assert methods == ["GET"] * 3 + ["POST"] * 3 + ["PATCH"] * 3 + ["DELETE"] * 3


def test_a_write_that_would_have_two_effects_is_not_repeated():
    nameless = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-", "namespace": "a"}}
    with ScriptedServer(failing(1, (500, {}, [b"{}"]))) as server:
        with pytest.raises(errors.Unreachable):
            server.kube.create(nameless)
        with pytest.raises(errors.Unreachable):
            server.kube.patch("v1", "Pod", "p", "a", [{"op": "add"}], patch_type="json")


@pytest.mark.parametrize("method", ["get", "create"])
def test_retry_after_is_honoured_by_reads_and_writes(method):
    with ScriptedServer(failing(2, (429, {"Retry-After": "1"}, [b"{}"]))) as server:
        server.kube.create(POD) if method == "create" else server.kube.get("v1", "Pod", "p", "a")
    assert len(server.pauses) == 2
    assert min(server.pauses) >= 1.0


def test_a_retry_after_that_is_too_long_to_wait_for_is_told_to_whoever_schedules():
    with (
        ScriptedServer(failing(9, (503, {"Retry-After": "30"}, [b"{}"]))) as server,
        pytest.raises(errors.Unreachable) as caught,
    ):
        server.kube.create(POD)
    assert (caught.value.retry_after, server.pauses) == (30.0, [])


def test_it_gives_up_after_a_few_tries_and_says_that_it_is_worth_another():
    with (
        ScriptedServer(failing(99, (500, {}, [b"{}"]))) as server,
        pytest.raises(errors.Unreachable) as caught,
    ):
        server.kube.get("v1", "Pod", "p", "a")
    assert caught.value.retryable
    assert len(server.pauses) == MAX_TRIES - 1


def test_a_refusal_is_not_repeated():
    with (
        ScriptedServer(failing(9, (403, {}, [b"{}"]))) as server,
        pytest.raises(errors.Forbidden),
    ):
        server.kube.create(POD)
    assert [method for method, *_ in server.requests].count("POST") == 1


def test_a_worker_that_lost_its_lease_sends_nothing_more():
    def lost():
        raise errors.StaleEpoch("another worker took over")

    with (
        ScriptedServer(failing(0)) as server,
        heartbeat.beating(lost, every_s=0.0),
        pytest.raises(errors.StaleEpoch),
    ):
        server.kube.create(POD)
    assert server.requests == []


@pytest.mark.parametrize("code", [429, 503])
@pytest.mark.parametrize("api_version", ["v1", "apps/v1"])
def test_a_discovery_that_is_refused_for_now_is_worth_another_try(code, api_version):
    """A kind is not missing because the cluster is busy."""

    def answer(method, path, query):
        if path == "/apis":
            return 200, {}, [json.dumps({"groups": []}).encode()]
        return code, {}, [status(code, "TooManyRequests", "busy")]

    with ScriptedServer(answer, discovery=False) as server:
        for ask in (server.kube.kinds, lambda: server.kube.list(api_version, "Pod")):
            with pytest.raises(errors.Unreachable, match="busy") as caught:
                ask()
            assert caught.value.retryable


def test_a_list_is_read_in_pages_and_its_items_know_what_they_are():
    def answer(method, path, query):
        more = "continue" not in query
        meta = {"resourceVersion": "7", "continue": "next" if more else ""}
        name = "p1" if more else "p2"
        return 200, {}, [json.dumps({"metadata": meta, "items": [{"metadata": {"name": name}}]}).encode()]

    with ScriptedServer(answer) as server:
        page = server.kube.list_page("v1", "Pod", "a", "app=x")
    assert [item["metadata"]["name"] for item in page.items] == ["p1", "p2"]
    assert {item["kind"] for item in page.items} == {"Pod"}
    assert page.resource_version == "7"
    assert server.requests[1][2] == {"limit": "500", "labelSelector": "app=x"}


def test_a_list_whose_pages_are_forgotten_is_asked_for_at_once():
    """Thousands of objects that change meanwhile: the API server no longer knows what the first page was part of."""

    def answer(method, path, query):
        if "continue" in query:
            return 410, {}, [status(410, "Expired", "The provided continue parameter is too old")]
        first = {"metadata": {"name": "p1"}}
        if "limit" in query:
            return 200, {}, [json.dumps({"metadata": {"continue": "next"}, "items": [first]}).encode()]
        whole = [first, {"metadata": {"name": "p2"}}]
        return 200, {}, [json.dumps({"metadata": {"resourceVersion": "9"}, "items": whole}).encode()]

    with ScriptedServer(answer) as server:
        page = server.kube.list_page("v1", "Pod", "a", "app=x")
    assert [item["metadata"]["name"] for item in page.items] == ["p1", "p2"]
    assert page.resource_version == "9"
    assert server.requests[-1][2] == {"labelSelector": "app=x"}


def test_an_unknown_kind_is_not_found():
    answer = (200, {}, [b"{}"])
    with (
        ScriptedServer(lambda *request: answer) as server,
        pytest.raises(errors.NotFound, match="no kind Sandwich in v1"),
    ):
        server.kube.list("v1", "Sandwich")


def test_names_cannot_leave_their_place_in_the_path():
    with ScriptedServer(lambda *request: (200, {}, [b"{}"])) as server:
        server.kube.get("v1", "Pod", "../../secrets?x=1#", "a/b")
    assert server.requests[-1][1] == "/api/v1/namespaces/a%2Fb/pods/..%2F..%2Fsecrets%3Fx%3D1%23"


def test_a_patch_says_what_it_is_and_who_made_it():
    with ScriptedServer(lambda *request: (200, {}, [b"{}"])) as server:
        server.kube.patch("v1", "Pod", "p", "a", {"x": None}, field_manager="m", dry_run=True)
    assert server.requests[-1][2] == {"fieldManager": "m", "dryRun": "All"}
    assert json.loads(server.bodies[-1]) == {"x": None}


def test_a_delete_names_the_very_object():
    with ScriptedServer(lambda *request: (200, {}, [b"{}"])) as server:
        server.kube.delete("v1", "Pod", "p", "a", uid="u1", grace_seconds=0)
    body = json.loads(server.bodies[-1])
    assert body["preconditions"] == {"uid": "u1"}
    assert (body["gracePeriodSeconds"], body["propagationPolicy"]) == (0, "Background")


def test_all_objects_of_a_kind_are_deleted_by_one_request():
    with ScriptedServer(lambda *request: (200, {}, [b"{}"])) as server:
        server.kube.delete_all("v1", "Pod", "a")
    assert server.requests[-1][:2] == ("DELETE", "/api/v1/namespaces/a/pods")


def test_logs_are_text_whatever_the_container_wrote():
    with ScriptedServer(lambda *request: (200, {}, [b"a\xff\n"])) as server:
        assert server.kube.logs("a", "p", previous=True) == "a\ufffd\n"
    assert server.requests[-1][2]["previous"] == "true"


def test_a_server_that_is_not_there_is_unreachable():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        kube = Kube(Access(url, "", token="t"), timeout=(0.2, 0.2))
        with pytest.raises(errors.Unreachable, match="cannot be reached") as caught:
            kube.version()
        kube.close()
    assert caught.value.retryable


@pytest.mark.parametrize(("service", "is_down"), [({"name": "metrics-server"}, True), (None, False)])
def test_an_extension_whose_server_is_down_has_no_kinds(service, is_down):
    def answer(method, path, query):
        if path == "/apis":
            groups = [{"preferredVersion": {"groupVersion": "metrics.k8s.io/v1beta1"}}]
            return 200, {}, [json.dumps({"groups": groups}).encode()]
        if path.startswith("/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io"):
            conditions = [{"type": "Available", "status": "False"}]
            spec = {"service": service} if service else {}
            return 200, {}, [json.dumps({"spec": spec, "status": {"conditions": conditions}}).encode()]
        return 503, {}, [status(503, "ServiceUnavailable", "the server is currently unable to handle the request")]

    with ScriptedServer(answer) as server:
        if is_down:
            assert [resource.kind for resource in server.kube.kinds()] == ["Pod"]
        else:
            with pytest.raises(errors.Unreachable):
                server.kube.kinds()


def test_whoever_may_not_look_at_a_silent_extension_leaves_it_out():
    def answer(method, path, query):
        if path == "/apis":
            stale = group_of_kinds("metrics.k8s.io", "v1beta1", freshness="Stale")
            return 200, {}, [json.dumps({"kind": "APIGroupDiscoveryList", "items": [stale]}).encode()]
        return 403, {}, [status(403, "Forbidden", "apiservices is forbidden")]

    with ScriptedServer(answer) as server:
        assert [resource.kind for resource in server.kube.kinds()] == ["Pod"]


def group_of_kinds(name, version, *entries, **rest):
    resources = [
        {"resource": plural, "responseKind": {"kind": kind}, "scope": scope, "verbs": ["list"]}
        for plural, kind, scope in entries
    ]
    return {"metadata": {"name": name}, "versions": [{"version": version, "resources": resources, **rest}]}


def test_one_answer_tells_the_kinds_of_every_group_and_a_stale_one_is_asked_for():
    apps = group_of_kinds("apps", "v1", ("deployments", "Deployment", "Namespaced"))
    storage = group_of_kinds("storage.k8s.io", "v1", ("csidrivers", "CSIDriver", "Cluster"))
    metrics = group_of_kinds("metrics.k8s.io", "v1beta1", freshness="Stale")
    gone = group_of_kinds("gone.example.com", "v1", freshness="Stale")
    document = {"kind": "APIGroupDiscoveryList", "items": [apps, storage, metrics, gone]}
    nodes = {"name": "nodes", "kind": "NodeMetrics", "namespaced": False, "verbs": ["list"]}

    def answer(method, path, query):
        if path == "/apis":
            return 200, {}, [json.dumps(document).encode()]
        if path.startswith("/apis/apiregistration.k8s.io/v1/apiservices/"):
            available = "True" if path.endswith("v1beta1.metrics.k8s.io") else "False"
            service = {
                "spec": {"service": {}},
                "status": {"conditions": [{"type": "Available", "status": available}]},
            }
            return 200, {}, [json.dumps(service).encode()]
        assert path == "/apis/metrics.k8s.io/v1beta1"
        return 200, {}, [json.dumps({"resources": [nodes]}).encode()]

    with ScriptedServer(answer) as server:
        found = {resource.kind: resource.namespaced for resource in server.kube.kinds()}
        assert found == {"Pod": True, "Deployment": True, "CSIDriver": False, "NodeMetrics": False}
        assert server.kube.known_path("apps/v1", "Deployment", "a") == "/apis/apps/v1/namespaces/a/deployments"


def test_one_answer_for_all_groups_tells_the_same_as_one_for_each(kube):
    at_once = [found for found in kube.kinds() if found.api_version != "metrics.k8s.io/v1beta1"]  # it may come later
    versions = dict.fromkeys(found.api_version for found in at_once)
    assert len(versions) > 15
    other = Kube(kube.access)
    one_by_one = [found for version in versions for found in other._ask_kinds(version).values()]
    assert sorted(at_once, key=str) == sorted(one_by_one, key=str)
    other.close()
