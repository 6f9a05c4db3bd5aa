"""Between two routes of a proof NVSentinel is let finish, and its records of the first one are removed."""

from __future__ import annotations

import pytest

from faults.catalog_check.errors import ProofFailed
from faults.catalog_check.nvsentinel_records import LOOK_S, PATIENCE_S, let_finish
from faults.nvsentinel.watched import CHECKS, ORDER_KINDS, ORDER_VERSION, STATE, UNCORDONED_AT
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
    order = {"apiVersion": ORDER_VERSION, "kind": "GPUReset", "metadata": {"name": "maintenance-gpu-1"}, "spec": {}}
    for made in (node("gpu-1", "True", **{STATE: "draining"}), node("gpu-2", **{UNCORDONED_AT: "then"}), order):
        cluster.create(made)
    return cluster


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


def test_a_node_that_it_never_lets_go_of_fails_the_proof(cluster):
    clock = PassingTime()
    with pytest.raises(ProofFailed, match="NVSentinel does not let go of gpu-1"):
        let_finish(cluster, clock)
    assert clock.waited >= PATIENCE_S
    assert len(cluster.list(ORDER_VERSION, "GPUReset")) == 1
