"""The fault injection API: who may do what, and what is written down of it."""

from __future__ import annotations

import pytest

from faults import services
from faults.models import ApiEvent, ApiToken, Cluster
from faults.services.api_tokens import INJECT, METRICS, READ
from faults.tests.injection import NETWORK, NODE, XID79, Program, shown_by_agent, token

pytestmark = pytest.mark.django_db


def test_metrics_without_a_prometheus_say_what_is_missing(cluster):
    status, body = Program(token(cluster, METRICS)).send("GET", "/api/v1/metrics/collect?namespace=default")
    assert (status, body["code"]) == (503, "metrics_unavailable")
    assert "Prometheus" in body["action"]


def test_metrics_of_a_namespace_that_is_missing_are_no_zeros(cluster):
    status, body = Program(token(cluster, METRICS)).send("GET", "/api/v1/metrics/collect?namespace=missing")
    assert (status, body["code"]) == (404, "not_in_cluster")
    assert body["action"].endswith("kubectl get namespaces")


@pytest.mark.parametrize("query", ["", "?namespace=A%22", "?namespace=default&duration=0"])
def test_metrics_are_refused_for_no_namespace_and_no_window(cluster, query):
    status, body = Program(token(cluster, METRICS)).send("GET", f"/api/v1/metrics/collect{query}")
    assert (status, body["code"]) == (422, "invalid_request")


ROUTES = [
    ("GET", "/api/v1/metrics/collect?namespace=default", METRICS),
    ("POST", NETWORK, INJECT),
    ("POST", "/api/v1/faults/network/cleanup", INJECT),
    ("GET", "/api/v1/faults", READ),
    ("GET", "/api/v1/faults/gpu/xid-types", READ),
    ("GET", "/api/v1/faults/none-00000000", READ),
    ("POST", XID79, INJECT),
    ("POST", "/api/v1/faults/gpu/inject", INJECT),
    ("POST", "/api/v1/faults/none-00000000/recover", INJECT),
    ("DELETE", "/api/v1/faults/none-00000000", INJECT),
]


@pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
def test_every_route_wants_a_token(cluster, method, path, scope):
    status, body = Program().send(method, path, {})
    assert (status, body["code"]) == (401, "no_token")
    status, body = Program("flt_unknown").send(method, path, {})
    assert (status, body["code"]) == (401, "token_invalid")


@pytest.mark.parametrize(("method", "path", "scope"), ROUTES)
def test_every_route_wants_its_scope(cluster, method, path, scope):
    others = {READ, INJECT, METRICS} - {scope}
    status, body = Program(token(cluster, *others)).send(method, path, {})
    assert (status, body["code"]) == (403, "scope_missing")
    assert scope in body["detail"]


@pytest.mark.parametrize("path", sorted({path for _, path, _ in ROUTES}))
def test_every_route_names_its_methods(program, path):
    answer = program.generic("PATCH", path, "{}", content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (405, "wrong_method")
    assert answer.headers["Allow"]


def test_tokens_end_when_they_expire_or_are_revoked(cluster):
    secret = token(cluster, READ)
    row = ApiToken.objects.get()
    assert Program(secret).send("GET", "/api/v1/faults")[0] == 200
    assert services.find_api_token(secret, row.expires_at) is None
    assert services.revoke_api_token(token=row, by="ada")
    assert not services.revoke_api_token(token=row, by="ada")
    assert Program(secret).send("GET", "/api/v1/faults")[0] == 401


def test_a_token_is_kept_as_a_hash_alone(cluster):
    secret = token(cluster, READ)
    row = ApiToken.objects.get()
    assert secret not in str(vars(row))
    assert len(row.token_hash) == 64


def test_a_token_opens_its_own_cluster_alone(fault, cluster):
    other = Cluster.objects.create(name="another", tier="practice", kubeconfig="")
    stranger = Program(token(other, READ, INJECT))
    assert stranger.send("GET", "/api/v1/faults")[1] == {"faults": [], "count": 0}
    for method in ("GET", "DELETE"):
        status, body = stranger.send(method, f"/api/v1/faults/{fault['fault_id']}")
        assert (status, body["code"]) == (404, "fault_not_found")


def test_what_was_asked_is_written_down(program, fault, cluster):
    program.send("POST", "/api/v1/faults/gpu/inject/xid-48", {"node_name": NODE})
    Program(token(cluster, READ)).send("DELETE", f"/api/v1/faults/{fault['fault_id']}")
    told = [(row.action, row.outcome) for row in ApiEvent.objects.exclude(action="token.issue")]
    assert told == [("fault.inject", "done"), ("fault.inject", "gpu_has_fault"), ("faults:inject", "scope_missing")]


def test_a_panic_stops_the_api(program, cluster, kube):
    services.engage_panic(cluster=cluster, by="ada")
    status, body = program.send("POST", XID79, {"node_name": NODE})
    assert (status, body["code"], shown_by_agent(kube)) == (409, "injection_stopped", [])


def test_health_needs_no_token(db):
    assert Program().send("GET", "/api/v1/health")[1]["service"] == "fault-injection-api"


def test_staff_alone_read_the_description(client, django_user_model):
    assert client.get("/api/v1/openapi.json").status_code == 401
    client.force_login(django_user_model.objects.create_user("ina"))
    assert client.get("/api/v1/openapi.json").status_code == 403
    client.force_login(django_user_model.objects.create_user("ada", is_staff=True))
    paths = client.get("/api/v1/openapi.json").json()["paths"]
    assert "/api/v1/faults/{fault_id}" in paths
