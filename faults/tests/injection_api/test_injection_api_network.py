"""Network faults through the fault injection API: the policies and experiments that stand for them."""

from __future__ import annotations

import json
import re

import pytest

from faults.injectors import isolation
from faults.tests.clusters import eventually
from faults.tests.injection import NETWORK

pytestmark = pytest.mark.django_db
PARTITION = {
    "partition_type": "frontend_worker",
    "source": "frontend",
    "target": "app=worker",
    "parameters": {"namespace": "default", "ports": [8000]},
}


def policies(kube):
    return {obj["metadata"]["name"]: obj for obj in kube.list(isolation.API_VERSION, "NetworkPolicy", "default")}


def test_a_partition_is_a_policy_that_goes_with_the_fault(program, kube):
    status, body = program.send("POST", NETWORK, PARTITION)
    assert (status, body["status"]) == (200, "active")
    [(name, policy)] = policies(kube).items()
    assert body["target"] == f"default/{name}"
    assert policy["spec"]["podSelector"]["matchLabels"] == {"app": "worker"}
    assert "nvidia.com/dynamo-component-type" in json.dumps(policy["spec"]["ingress"])
    assert program.send("DELETE", f"/api/v1/faults/{body['fault_id']}")[1]["status"] == "recovered"
    assert policies(kube) == {}


def test_a_partition_that_would_cut_nothing_is_refused_with_the_policy_that_keeps_it_open(program, kube):
    meta = {"name": isolation.NETWORK_POLICY, "namespace": "default"}
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]}
    kube.create({"apiVersion": isolation.API_VERSION, "kind": "NetworkPolicy", "metadata": meta, "spec": spec})
    try:
        status, body = program.send("POST", NETWORK, PARTITION)
        assert (status, body["code"]) == (409, "partition_without_effect")
        assert isolation.NETWORK_POLICY in json.dumps(body)
        assert [*policies(kube)] == [isolation.NETWORK_POLICY]
    finally:
        kube.delete(isolation.API_VERSION, "NetworkPolicy", isolation.NETWORK_POLICY, "default")


@pytest.mark.parametrize(
    ("selector", "code"), [({}, "partition_contradicted"), ({"matchLabels": {"app": "db"}}, None)]
)
def test_a_partition_opens_no_pods_that_a_policy_of_somebody_closes(program, kube, selector, code):
    meta, spec = {"name": "deny", "namespace": "default"}, {"podSelector": selector, "policyTypes": ["Ingress"]}
    kube.create({"apiVersion": isolation.API_VERSION, "kind": "NetworkPolicy", "metadata": meta, "spec": spec})
    try:
        assert program.send("POST", NETWORK, PARTITION)[1].get("code") == code
        assert len(policies(kube)) == (1 if code else 2)
    finally:
        program.send("POST", "/api/v1/faults/network/cleanup?namespace=default")
        kube.delete(isolation.API_VERSION, "NetworkPolicy", "deny", "default")


def test_a_second_partition_of_the_same_pods_does_not_end_the_first(program, kube):
    """The first opens them to all but frontends, the second to all but monitors: together to everybody."""
    assert program.send("POST", NETWORK, PARTITION)[0] == 200
    status, body = program.send("POST", NETWORK, {**PARTITION, "source": "app=monitor"})
    assert (status, body["code"], len(policies(kube))) == (409, "partition_contradicted", 1)
    assert program.send("POST", NETWORK, {**PARTITION, "source": "app=monitor", "target": "app=db"})[0] == 200
    program.send("POST", "/api/v1/faults/network/cleanup?namespace=default")


@pytest.fixture
def fence(kube):
    """The isolation of a session whose namespaces are default and other."""
    made = kube.create(isolation.policy("default", ["default", "other"], ["toolbox"]))
    yield made["spec"]
    kube.delete(isolation.API_VERSION, "NetworkPolicy", isolation.NETWORK_POLICY, "default")


def test_a_partition_in_a_sessions_namespace_makes_room_in_its_isolation_and_gives_it_back(program, kube, fence):
    status, body = program.send("POST", NETWORK, PARTITION)
    assert (status, body["status"]) == (200, "active")
    made = policies(kube)
    left = made.pop(isolation.NETWORK_POLICY)["spec"]
    assert (left["ingress"][0]["from"], left["egress"]) == (fence["ingress"][0]["from"][1:], fence["egress"])
    others = next(policy["spec"] for name, policy in made.items() if name.endswith("-others"))
    assert others["podSelector"]["matchExpressions"] == [{"key": "app", "operator": "NotIn", "values": ["worker"]}]
    assert others["ingress"][0]["from"] == fence["ingress"][0]["from"][:1]
    assert program.send("DELETE", f"/api/v1/faults/{body['fault_id']}")[1]["status"] == "recovered"
    assert {name: policy["spec"] for name, policy in policies(kube).items()} == {isolation.NETWORK_POLICY: fence}


def test_a_sessions_namespace_has_one_partition_in_each_direction(program, kube, fence):
    def custom(block, **more):
        wanted = {"namespace": "default", "block": block, **more}
        body = {**PARTITION, "partition_type": "custom", "parameters": wanted}
        status, answer = program.send("POST", NETWORK, body)
        return answer["status"] if status == 200 else answer["code"]

    assert custom("all", allow_namespaces=["kube-system"]) == "partition_invalid"  # the isolation keeps it out
    assert custom("ingress", allow_namespaces=["other"]) == "active"
    assert custom("all") == "partition_in_force"
    assert custom("egress", dns=False) == "active"
    assert custom("all") == custom("ingress") == "partition_in_force"  # though nothing of the common opening is left
    closed = policies(kube)[isolation.NETWORK_POLICY]["spec"]
    assert (closed["ingress"][0]["from"], closed.get("egress", [])) == (fence["ingress"][0]["from"][1:], [])
    _, body = program.send("POST", "/api/v1/faults/network/cleanup?namespace=default")
    assert body["policies_deleted"] == 4
    assert {name: policy["spec"] for name, policy in policies(kube).items()} == {isolation.NETWORK_POLICY: fence}


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
