"""Between two routes of a proof NVSentinel is let finish, and its records of the first one are removed."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from faults.catalog_check.errors import ProofFailed
from faults.catalog_check.nvsentinel_records import LOOK_S, PATIENCE_S, let_finish
from faults.nvsentinel.watched import CHECKS, GPU, ORDER_KINDS, ORDER_VERSION, STATE, UNCORDONED_AT
from faults.tests.fakes import FakeCluster, FakeKind

KINDS = [
    FakeKind("v1", "Node", namespaced=False),
    *(FakeKind(ORDER_VERSION, kind, namespaced=False) for kind in ORDER_KINDS),
]


class PassingTime:
    """A clock whose waits are counted; ``then`` is called after each."""

    def __init__(self, then=lambda waited: None):
        self.waited, self._then = 0.0, then

    def wait(self, seconds):
        self.waited += seconds
        self._then(self.waited)


def node(name, marked="False", **labels):
    conditions = [{"type": "Ready", "status": "True"}, {"type": CHECKS[0], "status": marked}]
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": {"conditions": conditions}}


@pytest.fixture
def cluster():
    cluster = FakeCluster(KINDS)
    for made in (
        node("gpu-1", "True", **{STATE: "draining"}),
        node("gpu-2", **{UNCORDONED_AT: "then"}),
        order("gpu-1"),
    ):
        cluster.create(made)
    return cluster


def order(node, status=MappingProxyType({"completionTime": "then"})):
    made = {"apiVersion": ORDER_VERSION, "kind": "GPUReset", "metadata": {"name": f"maintenance-{node}"}}
    return made | {"spec": {"nodeName": node}, "status": dict(status)}


def passing_until(cluster, node, ended):
    """Return a clock after three waits of which ``ended`` is done to a live object of a node."""
    return PassingTime(lambda waited: ended(cluster.objects[node]) if waited == 3 * LOOK_S else None)


def test_it_waits_for_the_last_mark_and_removes_orders_and_labels(cluster):
    def finish(waited):
        if waited == 3 * LOOK_S:
            well = node("gpu-1", **{UNCORDONED_AT: "now"})
            live = cluster.objects["v1", "Node", "", "gpu-1"]
            live["metadata"]["labels"], live["status"] = well["metadata"]["labels"], well["status"]

    clock = PassingTime(finish)
    let_finish(cluster, clock)
    assert clock.waited == 3 * LOOK_S
    assert cluster.list(ORDER_VERSION, "GPUReset") == []
    assert [list(each["metadata"]["labels"]) for each in cluster.list("v1", "Node")] == [
        ["kubernetes.io/hostname"]
    ] * 2


def test_it_waits_for_the_end_of_an_order_that_it_has_begun_to_carry_out():
    cluster = FakeCluster(KINDS)
    for made in (node("gpu-1"), order("gpu-1", {"startTime": "now"})):
        cluster.create(made)
    key = ORDER_VERSION, "GPUReset", "", "maintenance-gpu-1"
    clock = passing_until(cluster, key, lambda live: live["status"].update(completionTime="now"))
    let_finish(cluster, clock)
    assert clock.waited == 3 * LOOK_S


def test_it_waits_until_a_node_that_has_booted_offers_its_gpus():
    cluster = FakeCluster(KINDS)
    booted = node("gpu-1")
    booted["status"] |= {"capacity": {GPU: "8"}, "allocatable": {GPU: "0"}}
    cluster.create(booted)
    key = "v1", "Node", "", "gpu-1"
    clock = passing_until(cluster, key, lambda live: live["status"].update(allocatable={GPU: "8"}))
    let_finish(cluster, clock)
    assert clock.waited == 3 * LOOK_S


def test_a_node_that_it_never_lets_go_of_fails_the_proof(cluster):
    clock = PassingTime()
    with pytest.raises(ProofFailed, match="NVSentinel does not let go of gpu-1"):
        let_finish(cluster, clock)
    assert clock.waited >= PATIENCE_S
    assert len(cluster.list(ORDER_VERSION, "GPUReset")) == 1
