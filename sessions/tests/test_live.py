"""Rows in kubectl's words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sessions.observer import rows

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def pod(**status):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ns", "creationTimestamp": "2026-05-04T12:00:00Z"},
        "spec": {
            "nodeName": "node-1",
            "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "2"}}}],
        },
        "status": status,
    }


def container(ready=False, restarts=0, **state):
    return {"name": "c", "ready": ready, "restartCount": restarts, "state": state}


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Pending", "containerStatuses": [container(waiting={"reason": "ContainerCreating"})]}, None),
        ({"phase": "Running", "containerStatuses": [container(waiting={"reason": "CrashLoopBackOff"})]}, None),
        ({"phase": "Running", "containerStatuses": [container(True, running={})]}, "Running"),
        ({"phase": "Running", "containerStatuses": [container(terminated={"reason": "Error", "exitCode": 1})]}, None),
        ({"phase": "Succeeded", "containerStatuses": [container(terminated={"reason": "Completed"})]}, "Completed"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"phase": "Failed", "containerStatuses": [container(terminated={"exitCode": 3})]}, "ExitCode:3"),
        ({"phase": "Failed", "containerStatuses": [container(terminated={"signal": 9})]}, "Signal:9"),
        ({}, "Unknown"),
    ],
)
def test_a_pods_status_is_the_word_that_kubectl_prints(status, word):
    first = (status.get("containerStatuses") or [{}])[0].get("state", {})
    reasons = [entry["reason"] for entry in first.values() if "reason" in entry]
    assert rows.pod_status(pod(**status)) == (word or reasons[0])


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ({"running": {}}, "Init:0/1"),
        ({"terminated": {"exitCode": 1, "reason": "Error"}}, "Init:Error"),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, "Init:CrashLoopBackOff"),
        ({"terminated": {"exitCode": 0, "reason": "Completed"}}, "Running"),
    ],
)
def test_init_containers_come_first_until_they_are_done(state, word):
    status = {"initContainerStatuses": [container(**state)], "containerStatuses": [container(True, running={})]}
    assert rows.pod_status(pod(phase="Running", **status)) == word


def test_a_pod_that_is_being_deleted_is_terminating():
    leaving = pod(phase="Running")
    leaving["metadata"]["deletionTimestamp"] = "2026-05-04T12:00:00Z"
    assert rows.pod_status(leaving) == "Terminating"


def test_a_pod_row_says_why_and_marks_only_what_is_broken_as_intended():
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}
    row = rows.pod_row(pod(phase="Running", containerStatuses=[container(restarts=4, waiting=waiting)]), True)
    assert (row.ready, row.restarts, row.gpus, row.node) == ("0/1", 4, 2, "node-1")
    assert (row.message, row.intended, row.created_at) == ("back-off 10s restarting", True, NOON)
    well = rows.pod_row(pod(phase="Running", containerStatuses=[container(True, running={})]), True)
    assert (well.ready, well.intended) == ("1/1", False)


def test_a_pending_pod_shows_the_schedulers_words():
    condition = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    assert rows.pod_row(pod(phase="Pending", conditions=[condition]), False).message == "0/3 nodes are available"


def test_nodes_show_their_gpus_and_who_holds_them():
    node = {
        "metadata": {"name": "node-1", "labels": {"kubernetes.io/arch": "amd64", "nvidia.com/gpu.product": "H100"}},
        "spec": {"unschedulable": True},
        "status": {
            "allocatable": {"cpu": "96", "memory": "1056964608Ki", "nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    row = rows.node_rows([node], [pod(phase="Running"), pod(phase="Pending"), pod(phase="Succeeded")])[0]
    assert (row.gpus, row.gpus_used, row.cpu, row.memory) == (8, 4, "96", "1008 GiB")
    assert (row.ready, row.schedulable, row.arch, row.product) == (True, False, "amd64", "H100")


def test_an_event_is_as_old_as_its_last_occurrence():
    event = {
        "metadata": {"name": "e", "namespace": "ns", "creationTimestamp": "2026-05-04T11:00:00Z"},
        "involvedObject": {"kind": "Pod", "name": "p"},
        "type": "Warning",
        "reason": "BackOff",
        "message": "Back-off",
        "count": 5,
        "lastTimestamp": "2026-05-04T12:00:00Z",
    }
    row = rows.event_row(event)
    assert (row.at, row.object, row.count, row.type) == (NOON, "Pod/p", 5, "Warning")


@pytest.mark.parametrize(
    ("text", "value"), [("8", 8), ("1Gi", 2**30), ("100m", 0), ("1.5k", 1500), ("", 0), ("x", 0), (4, 4)]
)
def test_quantities_become_whole_numbers(text, value):
    assert rows.quantity(text) == value
