"""The fault injection API on a practice cluster with node agents: who may do what, and what becomes of it."""

from __future__ import annotations

import json
import re
import uuid
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.test import Client, override_settings

from faults import clock, practice, reconciler, selectors, services
from faults.engine.model import Request
from faults.engine.node_agents import Agent
from faults.injectors import TROUBLES
from faults.models import ApiEvent, ApiToken, Cluster, FaultRun, InjectedFault
from faults.services.api_tokens import INJECT, METRICS, READ
from faults.tests.injection import NODE, agents_run, make_cluster, token
from faults.tests.test_hostile_pods import eventually

pytestmark = pytest.mark.django_db
XID79 = "/api/v1/faults/gpu/inject/xid-79"
GPU_FAULT = "/api/v1/faults/gpu/inject"
THROTTLE = {"node_name": NODE, "fault_type": "throttle"}


@pytest.fixture(scope="module")
def host_cluster(practice_host, django_db_setup, django_db_blocker):
    """A cluster's name, for all tests of the module; each test has a row of its own for it."""
    name = f"i-{uuid.uuid4().hex[:10]}"
    with override_settings(**practice_host.settings), django_db_blocker.unblock():
        cluster = make_cluster(name)
        kube = selectors.kube_for(cluster)
        eventually(lambda: agents_run(kube))
        sealed = cluster.kubeconfig
        cluster.delete()
        yield name, sealed
        practice.drop(name)


@pytest.fixture
def cluster(host_cluster, practice):
    """The row of the cluster."""
    name, sealed = host_cluster
    return Cluster.objects.create(name=name, tier="practice", kubeconfig=sealed)


@pytest.fixture
def kube(cluster):
    return selectors.kube_for(cluster)


class Program(Client):
    """A program with a token, which speaks JSON."""

    def __init__(self, secret=""):
        super().__init__(headers={"Authorization": f"Bearer {secret}"} if secret else {})

    def send(self, method, path, body=None):
        data = json.dumps(body) if body is not None else ""
        answer = self.generic(method, path, data, content_type="application/json")
        return answer.status_code, answer.json()


@pytest.fixture
def program(cluster):
    """A program that may read and inject."""
    return Program(token(cluster, READ, INJECT))


def ask_agent(kube, request, node=NODE):
    """Return what the node's agent answers."""
    pods = kube.list("v1", "Pod", "fault-injection-system")
    pod = next(pod["metadata"]["name"] for pod in pods if pod["spec"]["nodeName"] == node)
    return json.loads(kube.call("fault-injection-system", f"pods/{pod}:8083", request).body)


def shown_by_agent(kube, node=NODE):
    """Return the faults that the node's agent shows."""
    return ask_agent(kube, Request("GET", "/faults"), node)["faults"]


def allocatable(kube, node=NODE):
    return kube.get("v1", "Node", node)["status"]["allocatable"]["nvidia.com/gpu"]


@pytest.fixture
def fault(program, kube):
    """An injected Xid 79, recovered at the end."""
    status, body = program.send("POST", XID79, {"node_name": NODE, "xid_type": 79, "gpu_id": 0})
    assert status == 200, body
    yield body
    program.send("DELETE", f"/api/v1/faults/{body['fault_id']}")


def test_an_xid_hits_the_gpu_and_is_recovered_by_delete(program, kube):
    status, body = program.send(
        "POST", XID79, {"node_name": NODE, "gpu_id": 1, "duration": 600, "layers": "combined"}
    )
    assert (status, body["status"], body["target"]) == (200, "active", f"{NODE}/gpu1")
    assert body["fault_id"].startswith("gpu_xid_79-")
    assert [(row["xid_type"], row["gpu_id"]) for row in shown_by_agent(kube)] == [(79, 1)]
    eventually(lambda: allocatable(kube) == "1")
    _, record = program.send("GET", f"/api/v1/faults/{body['fault_id']}")
    assert (record["type"], record["details"]["duration"]) == ("gpu_xid_79", 600)

    status, body = program.send("DELETE", f"/api/v1/faults/{body['fault_id']}")
    assert (status, body["status"]) == (200, "recovered")
    assert shown_by_agent(kube) == []
    eventually(lambda: allocatable(kube) == "2")
    assert InjectedFault.objects.get().recovered_at is not None


def test_deleting_a_recovered_fault_again_changes_nothing(program, fault):
    address = f"/api/v1/faults/{fault['fault_id']}"
    first, again = program.send("DELETE", address), program.send("DELETE", address)
    assert first == again
    assert again[1]["status"] == "recovered"


def test_recover_is_delete_by_another_name(program, fault, kube):
    status, body = program.send("POST", f"/api/v1/faults/{fault['fault_id']}/recover")
    assert (status, body["status"], shown_by_agent(kube)) == (200, "recovered", [])


def test_the_generic_route_injects_an_xid_as_well(program, kube):
    asked = {"node_name": NODE, "fault_type": "xid_error", "severity": "high", "parameters": {"xid_type": 94}}
    status, body = program.send("POST", "/api/v1/faults/gpu/inject", asked)
    assert (status, body["status"]) == (200, "active")
    _, record = program.send("GET", f"/api/v1/faults/{body['fault_id']}")
    assert (record["type"], record["details"]["severity"]) == ("gpu_xid_94", "high")
    program.send("DELETE", f"/api/v1/faults/{body['fault_id']}")


@pytest.mark.parametrize("effect", TROUBLES)
def test_a_gpu_is_slowed_down_or_taken_and_given_back(program, kube, effect):
    asked = {"node_name": NODE, "fault_type": effect, "severity": "low", "parameters": {"gpu_id": 1}}
    status, body = program.send("POST", GPU_FAULT, asked)
    assert (status, body.get("status"), body.get("target")) == (200, "active", f"{NODE}/gpu1"), body
    assert body["fault_id"].startswith(f"gpu_{effect}-")
    assert [(row["kind"], row["effect"], row["gpu_id"]) for row in shown_by_agent(kube)] == [("gpu", effect, 1)]
    assert program.send("POST", XID79, {"node_name": NODE, "gpu_id": 1})[1]["code"] == "gpu_has_fault"
    assert program.send("DELETE", f"/api/v1/faults/{body['fault_id']}")[1]["status"] == "recovered"
    assert shown_by_agent(kube) == []


def test_what_a_real_node_cannot_do_is_refused_with_the_reason(program, monkeypatch):
    """As the agent of a real node answers (faults/tests/test_node_agent.py)."""
    said = {"code": "unsupported_on_real_nodes", "detail": "a GPU's clocks are the hardware's own"}
    post = Agent.post

    def refuse(self, cluster, path, body):
        if path == "/inject":
            raise self._error(422, said)
        return post(self, cluster, path, body)

    monkeypatch.setattr(Agent, "post", refuse)
    status, body = program.send("POST", GPU_FAULT, {"node_name": NODE, "fault_type": "overheat"})
    assert (status, body["code"]) == (422, "unsupported_on_real_nodes")
    assert "the hardware's own" in body["detail"]
    assert "simulated node" in body["action"]


def test_faults_are_listed_all_or_active(program, fault):
    _, body = program.send("GET", "/api/v1/faults?active_only=true")
    assert [row["id"] for row in body["faults"]] == [fault["fault_id"]]
    program.send("DELETE", f"/api/v1/faults/{fault['fault_id']}")
    assert program.send("GET", "/api/v1/faults?active_only=true")[1] == {"faults": [], "count": 0}
    assert program.send("GET", "/api/v1/faults")[1]["count"] == 1


def test_every_xid_of_the_guide_is_listed(program):
    _, body = program.send("GET", "/api/v1/faults/gpu/xid-types")
    assert {79, 48, 94, 95, 43, 74, 119, 120} <= {row["code"] for row in body["xid_types"]}
    assert all(row["name"] and row["description"] for row in body["xid_types"])


def test_a_fault_ends_at_its_duration_and_its_deadline_is_with_the_agent_too(program, kube):
    _, body = program.send("POST", XID79, {"node_name": NODE, "duration": 60})
    run = FaultRun.objects.get()
    [entry] = shown_by_agent(kube)
    assert entry["fault_id"] == run.steps.get().undo["fault_id"]
    assert 55 < (run.deadline - clock.now()).total_seconds() <= 60
    assert reconciler.tick(run.deadline + timedelta(seconds=1)) == 1
    assert shown_by_agent(kube) == []
    assert program.send("GET", f"/api/v1/faults/{body['fault_id']}")[1]["status"] == "recovered"


def test_a_fault_without_a_duration_lasts_eight_hours_at_most(program, fault):
    run = FaultRun.objects.get()
    assert 7.9 * 3600 < (run.deadline - clock.now()).total_seconds() <= 8 * 3600


def test_a_gpu_has_one_fault_at_a_time(program, fault):
    status, body = program.send("POST", "/api/v1/faults/gpu/inject/xid-48", {"node_name": NODE})
    assert (status, body["code"]) == (409, "gpu_has_fault")
    assert body["action"] == f"Recover it first: DELETE /api/v1/faults/{fault['fault_id']}"


def test_the_database_holds_a_gpu_to_one_fault(fault):
    row = InjectedFault.objects.get()
    run = FaultRun.objects.create(purpose="api", cluster=row.cluster)
    with pytest.raises(IntegrityError), transaction.atomic():
        InjectedFault.objects.create(fault_id="x", cluster=row.cluster, run=run, type="t", node=NODE, gpu=0)


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        (XID79, {"node_name": "worker-node-7"}, 404, "not_in_cluster"),
        (XID79, {"node_name": NODE, "gpu_id": 2}, 422, "gpu_not_found"),
        (XID79, {"node_name": NODE, "xid_type": 48}, 422, "xid_mismatch"),
        (XID79, {"node_name": NODE, "duration": 28801}, 422, "invalid_request"),
        (XID79, {"node_name": NODE, "durtion": 5}, 422, "invalid_request"),
        (XID79, {"node_name": "../../x"}, 422, "invalid_request"),
        (XID79, [1], 422, "invalid_request"),
        ("/api/v1/faults/gpu/inject/xid-14", {"node_name": NODE}, 404, "xid_unknown"),
        (GPU_FAULT, {"node_name": NODE, "fault_type": "dust"}, 422, "invalid_request"),
        (GPU_FAULT, {"node_name": NODE, "fault_type": "xid_error"}, 422, "invalid_request"),
        (
            GPU_FAULT,
            {"node_name": NODE, "fault_type": "throttle", "parameters": {"xid_type": 79}},
            422,
            "invalid_request",
        ),
        (GPU_FAULT, {"node_name": NODE, "fault_type": "throttle", "parameters": {"gpu_id": 2}}, 422, "gpu_not_found"),
        ("/api/v1/faults/nothing/recover", {}, 404, "fault_not_found"),
        ("/api/v1/nothing", {}, 404, "no_such_route"),
    ],
)
def test_a_refusal_says_what_to_do_and_leaves_nothing(program, kube, path, body, status, code):
    found, answer = program.send("POST", path, body)
    assert (found, answer["code"]) == (status, code)
    assert answer["detail"]
    assert answer["action"]
    assert shown_by_agent(kube) == []
    assert not InjectedFault.objects.filter(recovered_at=None).exists()


def test_a_body_that_is_no_json_is_refused(program):
    answer = program.generic("POST", XID79, "{", content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


def test_an_injection_that_fails_is_taken_back_and_told(program, kube, monkeypatch):
    """The agent takes the fault, but does not show it: nobody knows whether the GPU fails."""
    seen = iter([None, None])
    real = Agent.fault
    monkeypatch.setattr(Agent, "fault", lambda self, cluster, name: next(seen, real(self, cluster, name)))
    status, body = program.send("POST", XID79, {"node_name": NODE})
    assert (status, body["code"]) == (503, "cluster_unreachable")
    [row] = program.send("GET", "/api/v1/faults")[1]["faults"]
    assert (row["status"], shown_by_agent(kube)) == ("failed", [])


def test_two_faults_within_a_second_wait_for_the_agent(program, kube):
    ids = [program.send("POST", XID79, {"node_name": NODE, "gpu_id": gpu})[1]["fault_id"] for gpu in (0, 1)]
    assert len(shown_by_agent(kube)) == 2
    assert [program.send("DELETE", f"/api/v1/faults/{each}")[0] for each in ids] == [200, 200]


def test_the_log_layer_leaves_the_gpu_to_its_processes(program, fault, kube):
    assert [row["layers"] for row in shown_by_agent(kube)] == ["log"]
    assert allocatable(kube) == "2"


PARTITION = {
    "partition_type": "frontend_worker",
    "source": "frontend",
    "target": "app=worker",
    "parameters": {"namespace": "default", "ports": [8000]},
}
NETWORK = "/api/v1/faults/network/inject"


def policies(kube):
    return {obj["metadata"]["name"]: obj for obj in kube.list("networking.k8s.io/v1", "NetworkPolicy", "default")}


def test_a_partition_is_a_policy_that_goes_with_the_fault(program, kube):
    status, body = program.send("POST", NETWORK, PARTITION)
    assert (status, body["status"]) == (200, "active")
    [(name, policy)] = policies(kube).items()
    assert body["target"] == f"default/{name}"
    assert policy["spec"]["podSelector"]["matchLabels"] == {"app": "worker"}
    assert "nvidia.com/dynamo-component-type" in json.dumps(policy["spec"]["ingress"])
    assert program.send("DELETE", f"/api/v1/faults/{body['fault_id']}")[1]["status"] == "recovered"
    assert policies(kube) == {}


def test_a_policy_does_not_tell_candidates_what_it_is_for(program, kube):
    program.send("POST", NETWORK, PARTITION)
    [policy] = policies(kube).values()
    assert not re.search(r"\bfault|inject|partition", json.dumps(policy).lower())
    program.send("POST", "/api/v1/faults/network/cleanup?namespace=default")


def test_the_clean_up_ends_all_partitions_of_a_namespace(program, kube):
    for _ in range(2):
        assert program.send("POST", NETWORK, PARTITION)[0] == 200
    names = sorted(policies(kube), reverse=True)
    assert program.send("POST", "/api/v1/faults/network/cleanup?namespace=other")[1]["policies_deleted"] == 0
    _, body = program.send("POST", "/api/v1/faults/network/cleanup?namespace=default")
    assert (body["policies_deleted"], sorted(body["deleted_policy_names"], reverse=True)) == (2, names)
    assert policies(kube) == {}
    assert program.send("GET", "/api/v1/faults?active_only=true")[1]["count"] == 0


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"mode": "wind"}, "invalid_request"),
        ({"mode": "chaos_mesh"}, "partition_invalid"),
        ({"parameters": {"namespace": "default", "delay_ms": 100}}, "partition_invalid"),
        ({"mode": "chaos_mesh", "parameters": {"namespace": "default", "target_ports": [80]}}, "ports_unsupported"),
        ({"source": "no pods at all"}, "partition_invalid"),
        ({"partition_type": "custom"}, "partition_invalid"),
        ({"parameters": {"namespace": "default", "block": "all"}}, "partition_invalid"),
        ({"parameters": {"namespace": "default", "target_pod_prefix": "x"}}, "partition_invalid"),
        ({"parameters": {"namespace": "Not one"}}, "invalid_request"),
    ],
)
def test_a_partition_that_cannot_be_is_refused(program, kube, change, code):
    status, body = program.send("POST", NETWORK, {**PARTITION, **change})
    assert (status, body["code"], policies(kube)) == (422, code, {})


def make_pod(kube, name, **labels):
    meta = {"name": name, "namespace": "default", "labels": labels}
    spec = {"containers": [{"name": "main", "image": "nginx:1.27"}]}
    kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


@pytest.fixture
def workers(kube):
    """Two workers of one kind, and a frontend."""
    pods = {"decode-1": "worker", "decode-2": "worker", "web-1": "frontend"}
    for name, part in pods.items():
        make_pod(kube, name, part=part, app="vllm")
    yield
    for name in pods:
        kube.delete("v1", "Pod", name, "default", grace_seconds=0)


def test_pods_named_by_a_prefix_are_cut_off_from_what_was_chosen(program, kube, workers):
    chosen = {"block_nats": True, "block_specific_pods": [{"part": "frontend"}], "block_all_egress": True}
    more = {"block_ports": [4222], "block_ingress": True, "allow_namespaces": ["kube-system"]}
    wanted = {"namespace": "default", "target_pod_prefix": "decode-", **chosen, **more}
    status, body = program.send("POST", NETWORK, {**PARTITION, "parameters": wanted})
    assert status == 200, body
    nats, web, egress, ingress = (policy["spec"] for policy in policies(kube).values())
    suffering = {"app": "vllm", "part": "worker"}
    assert nats["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "nats"}
    assert web["podSelector"]["matchLabels"] == {"part": "frontend"}
    assert {"protocol": "TCP", "port": 1, "endPort": 4221} in web["ingress"][1]["ports"]
    assert egress["podSelector"]["matchLabels"] == ingress["podSelector"]["matchLabels"] == suffering
    assert "kube-system" in json.dumps(egress["egress"])
    assert "kube-system" in json.dumps(ingress["ingress"])
    _, done = program.send("POST", "/api/v1/faults/network/cleanup?namespace=default")
    assert (done["policies_deleted"], policies(kube)) == (4, {})


def test_a_prefix_whose_labels_others_have_is_refused(program, kube, workers):
    make_pod(kube, "other", part="worker", app="vllm")
    wanted = {"namespace": "default", "target_pod_prefix": "decode-"}
    status, body = program.send("POST", NETWORK, {**PARTITION, "parameters": wanted})
    kube.delete("v1", "Pod", "other", "default", grace_seconds=0)
    assert (status, body["code"]) == (422, "partition_invalid")
    assert "select other as well" in body["detail"]


def make_definition(kube):
    """Define NetworkChaos as Chaos Mesh does, as far as an experiment's own fields go."""
    text = {"type": "string"}
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    actions = ["netem", "delay", "loss", "duplicate", "corrupt", "partition", "bandwidth"]
    fields = {
        "action": {**text, "enum": actions},
        "mode": {**text, "enum": ["one", "all", "fixed"]},
        "selector": free,
    }
    spec = {"type": "object", "required": [*fields], "properties": {**fields, "duration": text}}
    spec["x-kubernetes-preserve-unknown-fields"] = True
    version = {"name": "v1alpha1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    names = {
        "plural": "networkchaos",
        "singular": "networkchaos",
        "kind": "NetworkChaos",
        "listKind": "NetworkChaosList",
    }
    kube.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "networkchaos.chaos-mesh.org"},
            "spec": {"group": "chaos-mesh.org", "scope": "Namespaced", "names": names, "versions": [version]},
        }
    )


def test_chaos_mesh_is_asked_for_everything_that_was_chosen(program, kube):
    wanted = {"namespace": "default", "packet_loss_percent": 12.5, "delay_ms": 80, "bandwidth_limit": "1mbps"}
    body = {**PARTITION, "mode": "chaos_mesh", "duration": 300, "parameters": wanted}
    assert program.send("POST", NETWORK, body)[1]["code"] == "chaos_mesh_missing"
    make_definition(kube)
    eventually(lambda: kube.list("chaos-mesh.org/v1alpha1", "NetworkChaos", "default") == [])
    status, fault = program.send("POST", NETWORK, body)
    assert status == 200, fault
    netem, rate = (one["spec"] for one in kube.list("chaos-mesh.org/v1alpha1", "NetworkChaos", "default"))
    assert (netem["loss"], netem["delay"]["latency"], netem["duration"]) == ({"loss": "12.5"}, "80ms", "300s")
    assert netem["selector"]["labelSelectors"] == {"nvidia.com/dynamo-component-type": "frontend"}
    assert netem["target"]["selector"]["labelSelectors"] == {"app": "worker"}
    assert rate["bandwidth"]["rate"] == "1mbps"
    assert program.send("DELETE", f"/api/v1/faults/{fault['fault_id']}")[1]["status"] == "recovered"
    assert kube.list("chaos-mesh.org/v1alpha1", "NetworkChaos", "default") == []


def test_a_partition_of_a_namespace_that_is_missing_leaves_nothing(program):
    status, body = program.send("POST", NETWORK, {**PARTITION, "parameters": {"namespace": "missing"}})
    assert (status, body["code"]) == (404, "not_in_cluster")
    assert program.send("GET", "/api/v1/faults?active_only=true")[1]["count"] == 0


def test_metrics_without_a_prometheus_say_what_is_missing(cluster):
    status, body = Program(token(cluster, METRICS)).send("GET", "/api/v1/metrics/collect?namespace=default")
    assert (status, body["code"]) == (503, "metrics_unavailable")
    assert "Prometheus" in body["action"]


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
