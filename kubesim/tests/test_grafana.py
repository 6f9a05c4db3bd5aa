"""Grafana's API: what is provisioned, what Prometheus says through it, and who may ask."""

from __future__ import annotations

import base64

import orjson
import pytest

from kubesim.network.fabric import Request
from kubesim.tests.installed import install
from kubesim.tests.test_gpu_containers import trainer
from kubesim.tests.world import pod, world

NAMED = {"expr": 'DCGM_FI_DEV_GPU_UTIL{pod="train"}', "datasource": {"uid": "prometheus"}}


@pytest.fixture
async def charted():
    """A cluster of one node with monitoring and Grafana, and a training pod on two GPUs."""
    async with world(count=1) as w:
        await install(w, "gpu-operator", "monitoring", "grafana", seconds=0)
        await w.create("pods", pod("train", trainer(2)))
        await w.tick(180)
        yield w


async def ask(w, path, body=None, **headers):
    """Return the status and the document that Grafana answers with."""
    (found,) = await w.items("pods", "grafana")
    server = w.kubelets.fabric.find(found["status"]["podIP"], 3000)
    sent = b"" if body is None else orjson.dumps(body)
    answer = await server.respond(Request("GET" if body is None else "POST", path, headers, sent))
    return answer.status, orjson.loads(answer.body)


async def query(w, **fields):
    """Return the status and the result of one query over the last five minutes."""
    asked = {"from": "now-5m", "to": "now", "queries": [{"refId": "A", **NAMED, **fields}]}
    status, document = await ask(w, "/api/ds/query", asked)
    return status, document["results"]["A"]


async def change(w, name, **data):
    await w.client.patch("configmaps", name, "grafana", {"data": data})


async def test_what_is_provisioned_is_found_and_shown(charted):
    assert (await ask(charted, "/api/health"))[1]["database"] == "ok"
    _, found = await ask(charted, "/api/search")
    assert [(row["uid"], row["url"]) for row in found] == [
        ("gpus", "/d/gpus/gpus"),
        ("workloads", "/d/workloads/workloads"),
    ]
    assert [row["uid"] for row in (await ask(charted, "/api/search?query=WORK"))[1]] == ["workloads"]
    _, document = await ask(charted, "/api/dashboards/uid/gpus")
    assert document["meta"]["provisioned"]
    assert document["dashboard"]["panels"][0]["targets"][0]["expr"] == "DCGM_FI_DEV_GPU_UTIL"
    _, sources = await ask(charted, "/api/datasources")
    assert [source["uid"] for source in sources if source.get("isDefault")] == ["prometheus"]
    for path in ("/api/dashboards/uid/none", "/api/", "/api/ds/query", "/api/users"):
        assert (await ask(charted, path))[0] == 404
    (pod_of_it,) = await charted.items("pods", "grafana")
    server = charted.kubelets.fabric.find(pod_of_it["status"]["podIP"], 3000)
    assert (await server.respond(Request("GET", "/"))).headers["Content-Type"].startswith("text/html")


async def test_a_query_returns_prometheus_series_as_frames(charted):
    status, result = await query(charted)
    assert (status, len(result["frames"])) == (200, 2)
    frame = result["frames"][0]
    assert [field["name"] for field in frame["schema"]["fields"]] == ["Time", "Value"]
    assert frame["schema"]["fields"][1]["labels"]["pod"] == "train"
    times, values = frame["data"]["values"]
    assert len(times) == len(values) > 5
    assert values[-1] > 80
    assert times[1] - times[0] == 15_000
    # an instant query has one value, a scalar no labels, and no series are a frame without fields
    _, result = await query(charted, instant=True)
    assert [len(frame["data"]["values"][1]) for frame in result["frames"]] == [1, 1]
    _, result = await query(charted, instant=True, expr="scalar(vector(7))")
    assert result["frames"][0]["data"]["values"][1] == [7.0]
    status, result = await query(charted, expr="DCGM_FI_DEV_NOTHING")
    assert (status, result["frames"][0]["schema"]["fields"], result["frames"][0]["data"]) == (200, [], {"values": []})


OPERATED = "http://prometheus-operated.observability.svc:9090/api/v1/query_range"
WRONG = {
    "wrong PromQL": ({"expr": "sum("}, 400, "bad_data: "),
    "no server there": ({"datasource": {"uid": "prometheus-operated"}}, 500, f'Post "{OPERATED}": no such host'),
    "no such source": ({"datasource": {"uid": "loki"}}, 404, "data source not found"),
}
MALFORMED = [
    [],
    {"queries": []},
    {"from": "yesterday", "to": "now", "queries": []},
    {"from": "now-1h", "to": "now", "queries": [{}]},
    {"from": "now-1h", "to": "now", "queries": [{**NAMED, "maxDataPoints": "many"}]},
    {"from": "now-1h", "to": "now", "queries": [{**NAMED, "datasource": {"uid": []}}]},
    {"from": "9" * 400, "to": "now", "queries": [NAMED]},
]


async def test_a_query_that_fails_says_why(charted):
    for name, (fields, status, words) in WRONG.items():
        seen, result = await query(charted, **fields)
        assert (seen, result["status"], result["error"][: len(words)]) == (status, status, words), name
    for body in MALFORMED:
        assert await ask(charted, "/api/ds/query", body) == (400, {"message": "bad request data", "traceID": ""})


async def test_what_is_provisioned_wrongly_is_left_out(charted):
    await change(charted, "grafana-dashboards", **{"gpus.json": "{", "workloads.json": '{"title": [1]}'})
    assert (await ask(charted, "/api/search"))[1] == []
    await change(charted, "grafana-provisioning", **{"dashboards.yaml": "providers: [{options: text}, 1]"})
    assert (await ask(charted, "/api/search"))[1] == []
    sources = "datasources: [{name: Prometheus, url: [1], extra: !!binary aGk=}]"
    await change(charted, "grafana-provisioning", **{"datasources.yaml": sources})
    assert [row["uid"] for row in (await ask(charted, "/api/datasources"))[1]] == ["PBFA97CFB590B2093"]
    status, result = await query(charted, datasource={"uid": "PBFA97CFB590B2093"})
    assert (status, result["status"]) == (500, 500)


async def test_without_anonymous_access_a_password_is_asked_for(charted):
    env = [{"name": "GF_SECURITY_ADMIN_PASSWORD", "value": "tide"}]
    found = await charted.client.get("deployments.apps", "grafana", "grafana")
    (container,) = found["spec"]["template"]["spec"]["containers"]
    patch = {"spec": {"template": {"spec": {"containers": [{**container, "env": env}]}}}}
    await charted.client.patch("deployments.apps", "grafana", "grafana", patch)
    await charted.tick(60)
    assert (await ask(charted, "/api/search"))[0] == 401
    for password, status in (("tide", 200), ("admin", 401)):
        basic = base64.b64encode(f"admin:{password}".encode()).decode()
        assert (await ask(charted, "/api/search", authorization=f"Basic {basic}"))[0] == status
