"""The scenario of two memories: what each of the two jobs shows, and on which nodes.

``make catalog-check`` plays its solutions and wrong turns; here is one cluster for all tests.
"""

from __future__ import annotations

import threading
import time as machine_time
from datetime import UTC, datetime, timedelta

import pytest

from faults import checks
from faults import practice as practice_clusters
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.practice_shape import shape_for
from faults.services.requirements import choose_values
from faults.tests.variants import PACKS

PACK = next(pack for pack in PACKS if pack.slug == "fine-tune-restarts")
NAMESPACE = PACK.namespaces["workloads"]
BY_NODE = next(variant for variant in PACK.variants if variant["pin"] == "node")
PATIENCE_S = 60.0


def eventually(true):
    end, gate = machine_time.monotonic() + PATIENCE_S, threading.Event()
    while not (answer := true()):
        assert machine_time.monotonic() < end, "it did not happen in time"
        gate.wait(0.2)
    return answer


def asleep(node):
    """Return the brief's pod that sleeps with a GPU, on a node."""
    container = {"name": "smi", "image": PACK.requires.images[0], "command": ["sleep", "3600"]}
    container["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    spec = {"nodeSelector": {"kubernetes.io/hostname": node}, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "smi", "namespace": NAMESPACE}, "spec": spec}


@pytest.fixture
def kube(practice):
    """A cluster of the pack's own shape."""
    until = datetime.now(UTC) + timedelta(hours=1)
    made = practice_clusters.create("fine-tune", until, shape_for([PACK]), present=PACK.requires.images)
    kube = Kube(parse(made["kubeconfig"]))
    yield kube
    kube.close()
    practice_clusters.drop("fine-tune")


def test_one_job_fills_its_gpu_and_the_other_its_container_and_nvidia_smi_tells_the_size(kube):
    nodes = {node["metadata"]["name"]: node for node in kube.list("v1", "Node")}
    values = choose_values(PACK, list(nodes.values()), 7)
    small = values["cluster.small-node"]
    assert nodes[small]["metadata"]["labels"]["nvidia.com/gpu.memory"] == values["cluster.small-memory"] == "15360"
    pack = PACK.bind(parameters={**BY_NODE, **values})
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    eventually(lambda: kube.list("v1", "ServiceAccount", NAMESPACE))
    for step in pack.inject:
        for obj in step.spec["objects"]:
            kube.create(obj)
    kube.create(asleep(small))
    eventually(lambda: all(checks.evaluate(part, kube).verdict == "pass" for part in pack.symptom))
    assert {outcome.verdict for outcome in checks.evaluate_all(pack.checks, kube).values()} == {"fail", "not_run"}
    assert {outcome.verdict for outcome in checks.evaluate_all(pack.guards, kube).values()} == {"pass"}
    (pod,) = kube.list("v1", "Pod", NAMESPACE, f"job-name={BY_NODE['tune']}")
    assert pod["spec"]["nodeName"] == small
    (status,) = pod["status"]["containerStatuses"]
    ended = status["state"].get("terminated") or status["lastState"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("Error", 1)
    told = kube.run_command(NAMESPACE, "smi", "smi", ["nvidia-smi"])
    assert told[0] == 0
    assert "Tesla T4" in told[1]
    assert "15360MiB" in told[1]


def test_every_variant_pins_the_first_job_by_one_of_three_labels_and_to_small_gpus():
    pinned = {}
    for variant in PACK.variants:
        bound = PACK.bind(parameters={**variant, "cluster.small-node": "n", "cluster.small-memory": "15360"})
        job = next(o for s in bound.inject for o in s.spec["objects"] if o["metadata"]["name"] == variant["tune"])
        pinned[variant["tune"]] = next(iter(job["spec"]["template"]["spec"]["nodeSelector"]))
    assert sorted(pinned.values()) == sorted(
        ["nvidia.com/gpu.product", "kubernetes.io/hostname", "nvidia.com/gpu.memory"] * 2
    )


@pytest.mark.parametrize("variant", PACK.variants, ids=lambda variant: variant["tune"])
def test_the_index_is_larger_than_its_container_and_smaller_than_the_solutions(variant):
    gib = int(variant["shards"]) / 2
    assert int(variant["limit"].removesuffix("Gi")) < gib < 16
