"""The order of pods and nodes on the live page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sessions.live import NodeRow
from sessions.observer.rows import broken_first, pod_row, unusable_first

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def pod(name="web-0", state=None, *, phase="Running", restarts=0, ready=True, conditions=()):
    entry = {"state": state or {}, "restartCount": restarts, "ready": ready}
    return {
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": phase, "containerStatuses": [entry], "conditions": list(conditions)},
    }


def running(seconds):
    return {"running": {"startedAt": (NOON - timedelta(seconds=seconds)).isoformat()}}


def waiting(reason):
    return {"waiting": {"reason": reason}}


CRASHES = pod("zz", waiting("CrashLoopBackOff"), restarts=4, ready=False)
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}


def test_broken_pods_come_first_and_each_group_is_sorted_by_name():
    found = [pod("b", running(600)), CRASHES, pod("a", running(600)), pod("y", waiting("ErrImagePull"), ready=False)]
    rows = sorted((pod_row(one, False, NOON) for one in found), key=broken_first)
    assert [row.name for row in rows] == ["y", "zz", "a", "b"]


def test_a_crashing_pod_keeps_its_place_while_it_runs_between_two_crashes():
    moments = [
        CRASHES,
        pod("zz", running(1), restarts=5),
        pod("zz", {"terminated": {"exitCode": 1, "reason": "Error"}}, restarts=5, ready=False),
        pod("zz", running(2), restarts=6),
    ]
    assert {broken_first(pod_row(one, True, NOON)) for one in moments} == {(False, "ml", "zz")}


def test_a_repaired_pod_leaves_the_broken_ones_after_a_minute():
    assert pod_row(pod(state=running(59), restarts=3), False, NOON).broken
    assert not pod_row(pod(state=running(61), restarts=3), False, NOON).broken


@pytest.mark.parametrize(
    ("one", "broken"),
    [
        (pod(phase="Pending", conditions=[UNSCHEDULABLE]), True),
        (pod(phase="Pending"), False),
        (pod(state=waiting("ContainerCreating"), phase="Pending", ready=False), False),
        (pod(state=running(5), ready=False), False),
        (pod(state=running(31), ready=False), True),
        (pod(state={"terminated": {"exitCode": 0, "reason": "Completed"}}, phase="Succeeded", ready=False), False),
    ],
    ids=["unschedulable", "pending", "creating", "starting", "never ready", "completed"],
)
def test_a_pod_is_broken_when_it_needs_a_look(one, broken):
    assert pod_row(one, False, NOON).broken is broken


def test_nodes_that_take_no_pods_come_first():
    names = [("a", True, True), ("b", True, False), ("c", False, True)]
    rows = [NodeRow(name, ready, schedulable, "amd64", "", 8, 0, "", "") for name, ready, schedulable in names]
    own = NodeRow("0", True, True, "amd64", "", 1, 1, "", "", for_toolbox=True)
    assert [row.name for row in sorted([own, *rows], key=unusable_first)] == ["b", "c", "a", "0"]
