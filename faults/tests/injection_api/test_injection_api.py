"""GPU faults through the fault injection API on a practice cluster with node agents, and what becomes of them."""

from __future__ import annotations

from datetime import timedelta
from unittest.mock import Mock

import pytest
from django.db import IntegrityError, transaction

from faults import clock, reconciler
from faults.engine.node_agents import Agent
from faults.errors import Unanswered
from faults.injectors import TROUBLES
from faults.models import FaultRun, InjectedFault
from faults.tests.clusters import eventually
from faults.tests.injection import NODE, XID79, allocatable, shown_by_agent

pytestmark = pytest.mark.django_db
GPU_FAULT = "/api/v1/faults/gpu/inject"
THROTTLE = {"node_name": NODE, "fault_type": "throttle"}


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
        ("/api/v1/faults/gpu/inject/xid-63", {"node_name": NODE, "layers": "cuda"}, 422, "no_cuda_effect"),
        (XID79, {"node_name": "../../x"}, 422, "invalid_request"),
        (XID79, [1], 422, "invalid_request"),
        ("/api/v1/faults/gpu/inject/xid-14", {"node_name": NODE}, 404, "xid_unknown"),
        ("/api/v1/faults/gpu/inject/xid--1", {"node_name": NODE}, 404, "xid_unknown"),
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


@pytest.mark.parametrize(
    ("body", "detail", "action"),
    [
        ({}, "node_name is missing.", "as `kubectl get nodes` prints it"),
        ({"node_name": NODE, "duration": 0}, "duration: Input should be greater", "from 1 to 28800, or null"),
        ({"node_name": NODE, "duration": "10"}, "duration: Input should be a number, without quotes", "or null"),
        ({"node_name": NODE, "gpu_id": True}, "gpu_id: Input should be a number", "`nvidia-smi -L`"),
        ({"node_name": NODE, "durtion": 5}, "durtion is no field of this request.", "correct its spelling"),
        (None, "The request has no body.", "/api/v1/docs"),
    ],
)
def test_a_request_that_does_not_fit_is_told_what_does(program, body, detail, action):
    status, said = program.send("POST", XID79, body)
    assert (status, said["code"], said["detail"].startswith(detail)) == (422, "invalid_request", True), said
    assert action in said["action"]
    assert not InjectedFault.objects.exists()


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


@pytest.fixture
def reboots(kube):
    """The kind of NVSentinel's orders to boot nodes."""
    group, free = "janitor.dgxc.nvidia.com", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"openAPIV3Schema": free}}
    names = {"plural": "rebootnodes", "singular": "rebootnode", "kind": "RebootNode", "listKind": "RebootNodeList"}
    spec = {"group": group, "scope": "Cluster", "names": names, "versions": [version]}
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    kube.create({**definition, "metadata": {"name": f"rebootnodes.{group}"}})
    eventually(lambda: kube.list(f"{group}/v1alpha1", "RebootNode") == [])
    yield f"{group}/v1alpha1"
    kube.delete("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"rebootnodes.{group}")


def test_nothing_is_injected_into_a_node_while_nvsentinel_boots_it(program, kube, reboots):
    begun = {"startTime": clock.now().isoformat()}
    order = {"apiVersion": reboots, "kind": "RebootNode", "metadata": {"name": "maintenance-1"}}
    kube.create({**order, "spec": {"nodeName": NODE}, "status": begun})
    status, body = program.send("POST", XID79, {"node_name": NODE})
    assert (status, body["code"]) == (503, "node_boots")
    assert "RebootNode maintenance-1" in body["detail"]
    assert not InjectedFault.objects.exists()
    kube.patch(
        reboots, "RebootNode", "maintenance-1", "", {"status": {**begun, "completionTime": begun["startTime"]}}
    )
    status, body = program.send("POST", XID79, {"node_name": NODE})
    assert status == 200, body
    program.send("DELETE", f"/api/v1/faults/{body['fault_id']}")


def test_who_asks_before_a_nodes_agent_answers_is_told_to_come_back(program, monkeypatch):
    """As after a boot: the agent's pod runs, and its program does not listen yet."""
    refused = "error trying to reach service: dial tcp 10.64.1.11:8083: connect: connection refused"
    monkeypatch.setattr(Agent, "gpu_count", Mock(side_effect=Unanswered(refused)))
    answer = program.post(XID79, {"node_name": NODE}, "application/json")
    assert (answer.status_code, answer.json()["code"], answer["Retry-After"]) == (503, "agent_silent", "2")
    assert refused in answer.json()["detail"]
    assert not InjectedFault.objects.exists()


def test_the_log_layer_leaves_the_gpu_to_its_processes(program, fault, kube):
    assert [row["layers"] for row in shown_by_agent(kube)] == ["log"]
    assert allocatable(kube) == "2"
