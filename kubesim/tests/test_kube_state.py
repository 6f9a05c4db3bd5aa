"""kube-state-metrics: what is said of objects, now and before."""

from __future__ import annotations

import copy

import pytest

from kubesim.metrics.api import Prometheus
from kubesim.metrics.exposition import render
from kubesim.metrics.kube_state import KubeState, family, lines, resource, tables
from kubesim.metrics.scrape import Target

START = 1_762_070_400.0
POD = {
    "metadata": {
        "name": "train-0", "namespace": "ml", "uid": "u1", "creationTimestamp": "2025-11-02T08:00:00Z",
        "labels": {"a/b": "c"},
        "ownerReferences": [{"kind": "Job", "name": "train", "controller": True}],
    },
    "spec": {
        "nodeName": "node-a",
        "containers": [
            {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "500m", "memory": "1Gi"}}},
        ],
    },
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [{
            "name": "main", "restartCount": 3, "ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
        }],
    },
}  # fmt: skip


@pytest.fixture
def state() -> KubeState:
    state = KubeState()
    state.observe("Pod", POD, START)
    return state


@pytest.fixture
def server(state) -> Prometheus:
    server = Prometheus()
    server.database.targets.append(Target({"job": "kube-state-metrics"}, state.series, START, honor_labels=True))
    return server


def value(server, query, at):
    found = server.answer("query", {"query": [query]}, at)[1]["data"]["result"]
    return [float(item["value"][1]) for item in found]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('kube_pod_status_phase{phase="Running",pod="train-0"}', [1]),
        ('kube_pod_status_phase{phase="Pending",pod="train-0"}', [0]),
        ('kube_pod_container_status_waiting_reason{reason="CrashLoopBackOff"}', [1]),
        ('kube_pod_container_status_last_terminated_reason{reason="OOMKilled"}', [1]),
        ("kube_pod_container_status_last_terminated_exitcode", [137]),
        ("kube_pod_container_status_restarts_total", [3]),
        ('kube_pod_container_resource_limits{resource="nvidia_com_gpu",unit="integer"}', [2]),
        ('kube_pod_container_resource_limits{resource="cpu",unit="core"}', [0.5]),
        ('kube_pod_container_resource_limits{resource="memory",unit="byte"}', [1073741824]),
        ('kube_pod_status_ready{condition="true"}', [0]),
        ('kube_pod_owner{owner_kind="Job",owner_is_controller="true"}', [1]),
        ('kube_pod_info{node="node-a",created_by_name="train"}', [1]),
        ('kube_pod_labels{label_a_b="c"}', [1]),
        ("kube_pod_created", [1762070400]),
    ],
)
def test_a_pod_is_described(server, query, expected):
    assert value(server, query, START + 100) == expected


def test_the_past_is_that_of_the_versions_then(server, state):
    later = copy.deepcopy(POD)
    later["status"]["containerStatuses"][0]["restartCount"] = 9
    state.observe("Pod", later, START + 600)
    assert value(server, "kube_pod_container_status_restarts_total", START + 300) == [3]
    assert value(server, "kube_pod_container_status_restarts_total", START + 900) == [9]
    assert value(server, "increase(kube_pod_container_status_restarts_total[15m])", START + 900)[0] == pytest.approx(
        6, abs=0.5
    )
    state.observe("Pod", later, START + 1000, deleted=True)
    assert value(server, "kube_pod_info", START + 1100) == []
    assert value(server, "kube_pod_info", START + 900) == [1]
    state.forget(START + 2000)
    assert value(server, "kube_pod_info", START + 900) == []


def test_a_node_tells_what_it_has_and_what_keeps_pods_away(state):
    node = {
        "metadata": {"name": "node-a", "uid": "u2", "creationTimestamp": "2025-11-02T08:00:00Z", "labels": {}},
        "spec": {
            "unschedulable": True,
            "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
        },
        "status": {
            "allocatable": {"nvidia.com/gpu": "8", "hugepages-2Mi": "0"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    said = {
        (name, labels.get("resource") or labels.get("status") or labels.get("key")): v
        for name, labels, v in lines("Node", node)
    }
    assert said["kube_node_spec_unschedulable", None] == 1
    assert said["kube_node_status_allocatable", "nvidia_com_gpu"] == 8
    assert said["kube_node_status_condition", "true"] == 1
    assert said["kube_node_status_condition", "false"] == 0
    assert said["kube_node_spec_taint", "nvidia.com/gpu"] == 1


def test_resources_are_named_as_the_exporter_names_them():
    assert resource("hugepages-1Gi") == ("hugepages_1Gi", "byte")
    assert resource("nvidia.com/mig-1g.10gb") == ("nvidia_com_mig_1g_10gb", "integer")


def test_the_page_can_be_read_by_prometheus(state):
    page = render(state.exposed())
    assert (
        'kube_pod_container_status_restarts_total{namespace="ml",pod="train-0",uid="u1",container="main"} 3' in page
    )
    assert "# TYPE kube_pod_container_status_restarts_total counter" in page
    assert "# HELP kube_pod_info [STABLE] Information about pod.\n" in page


@pytest.mark.parametrize("kind", sorted(tables()))
def test_an_object_without_a_status_is_described_all_the_same(kind):
    bare = {
        "metadata": {"name": "x", "namespace": "y", "uid": "u", "creationTimestamp": "2025-11-02T08:00:00Z"},
        "spec": {},
    }
    said = list(lines(kind, bare))
    assert said
    assert all(family(name).help for name, _, _ in said), "a metric that version 2.17 does not know"


def test_metrics_are_those_of_version_2_17():
    assert all(family(row.name).help for table in tables().values() for row in table.rows)
    assert all(family(name).help for name, _, _ in lines("Pod", POD))


def test_a_pod_says_when_it_came_so_far_and_what_became_of_it():
    pod = copy.deepcopy(POD)
    pod["spec"]["initContainers"] = [{"name": "wait", "image": "busybox:1"}]
    ended = {"terminated": {"reason": "Evicted", "exitCode": 1, "finishedAt": "2025-11-02T08:01:00Z"}}
    pod["status"] |= {
        "qosClass": "Burstable",
        "conditions": [{"type": "PodScheduled", "status": "False", "lastTransitionTime": "2025-11-02T08:00:10Z"}],
        "initContainerStatuses": [{"name": "wait", "image": "docker.io/busybox:1", "state": ended}],
        "containerStatuses": [{"name": "main", "state": ended}],
    }
    said = {(name, tuple(labels.values())[3:]): value for name, labels, value in lines("Pod", pod)}
    assert said["kube_pod_status_unschedulable", ()] == 1
    assert said["kube_pod_status_unscheduled_time", ()] == START + 10
    assert said["kube_pod_status_reason", ("Evicted",)] == 1
    assert said["kube_pod_status_qos_class", ("Burstable",)] == 1
    assert said["kube_pod_completion_time", ()] == START + 60
    assert said["kube_pod_init_container_info", ("wait", "busybox:1", "docker.io/busybox:1", "", "")] == 1
    assert said["kube_pod_init_container_status_terminated_reason", ("wait", "Evicted")] == 1
    assert said["kube_pod_container_status_terminated", ("main",)] == 1


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, {None: 0}),
        ({"failed": 2}, {"": 2}),
        (
            {"failed": 2, "conditions": [{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}]},
            {"BackoffLimitExceeded": 0, "DeadlineExceeded": 1, "Evicted": 0},
        ),
        (
            {"failed": 2, "conditions": [{"type": "Failed", "status": "True", "reason": "PodFailurePolicy"}]},
            {"BackoffLimitExceeded": 0, "DeadlineExceeded": 0, "Evicted": 0, "": 2},
        ),
    ],
)
def test_a_job_counts_what_failed_by_the_reason_of_its_end(status, expected):
    job = {"metadata": {"name": "train", "namespace": "ml"}, "spec": {}, "status": status}
    said = {la.get("reason"): value for name, la, value in lines("Job", job) if name == "kube_job_status_failed"}
    assert said == expected


def test_a_deployment_rounds_as_its_controller_does_and_keeps_unknown_reasons_to_itself():
    deployment = {
        "metadata": {"name": "web", "namespace": "ml"},
        "spec": {"replicas": 5, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}},
        "status": {"conditions": [{"type": "Available", "status": "True", "reason": "Because"}]},
    }
    said = {(name, la.get("reason"), la.get("status")): value for name, la, value in lines("Deployment", deployment)}
    assert said["kube_deployment_spec_strategy_rollingupdate_max_surge", None, None] == 2
    assert said["kube_deployment_spec_strategy_rollingupdate_max_unavailable", None, None] == 1
    assert said["kube_deployment_status_condition", "unknown", "true"] == 1
