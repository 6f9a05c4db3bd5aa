"""The scenario of two memories: what each of the two jobs shows, and on which nodes.

``make catalog-check`` plays its solutions and wrong turns, the sample of it a variant whose tuning fills its GPU.
Here is one in which the tuning is OOMKilled, in one cluster for all tests.
"""

from __future__ import annotations

import threading
import time as machine_time
from datetime import UTC, datetime, timedelta

import pytest

from faults import checks, toolbox
from faults import practice as practice_clusters
from faults.checks import ObjectRead
from faults.checks.reading import read_all
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.practice_shape import shape_for
from faults.services.requirements import choose_values
from faults.tests.variants import PACKS
from faults.toolbox import PRACTICE_IMAGE, Toolbox
from faults.toolbox_nodes import is_set_aside

PACK = next(pack for pack in PACKS if pack.slug == "fine-tune-restarts")
NAMESPACE = PACK.namespaces["workloads"]
WITH_INDEX_ON_GPU = [variant for variant in PACK.variants if variant["full"] == "embed"]
KILLED_TUNING = next(variant for variant in PACK.variants if (variant["pin"], variant["full"]) == ("node", "embed"))
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


def test_the_embedding_fills_its_gpu_and_the_tuning_its_container_and_nvidia_smi_tells_the_size(kube):
    nodes = {node["metadata"]["name"]: node for node in kube.list("v1", "Node")}
    values = choose_values(PACK, list(nodes.values()), 7)
    small = values["cluster.small-node"]
    assert nodes[small]["metadata"]["labels"]["nvidia.com/gpu.memory"] == values["cluster.small-memory"] == "15360"
    pack = PACK.bind(parameters={**KILLED_TUNING, **values})
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    eventually(lambda: kube.list("v1", "ServiceAccount", NAMESPACE))
    for step in pack.inject:
        for obj in step.spec["objects"]:
            kube.create(obj)
    kube.create(asleep(small))
    kube.create(toolbox.pod(Toolbox(NAMESPACE, PRACTICE_IMAGE, gpu=True), account="default", selected=NAMESPACE))
    eventually(lambda: all(checks.evaluate(part, kube).verdict == "pass" for part in pack.symptom))
    assert {outcome.verdict for outcome in checks.evaluate_all(pack.checks, kube).values()} == {"fail", "not_run"}
    assert {outcome.verdict for outcome in checks.evaluate_all(pack.guards, kube).values()} == {"pass"}
    assert end_of(kube, KILLED_TUNING["embed"]) == (small, "Error", 1)
    assert end_of(kube, KILLED_TUNING["tune"])[1:] == ("OOMKilled", 137)
    eventually(lambda: not toolbox.why_not_running(kube.get("v1", "Pod", toolbox.NAME, NAMESPACE)))
    for pod in ("smi", toolbox.NAME):
        code, told = kube.run_command(NAMESPACE, pod, pod, ["nvidia-smi"])
        assert (code, "Tesla T4" in told, "15360MiB" in told) == (0, True, True)
    (own,) = (name for name, node in nodes.items() if is_set_aside(node))
    assert {"NoSchedule node-role.kubernetes.io/toolbox", "NoSchedule nvidia.com/gpu"} == {
        f"{taint['effect']} {taint['key']}" for taint in nodes[own]["spec"]["taints"]
    }
    daemons = {"kube-system", "monitoring"}
    there = [pod["metadata"] for pod in kube.list("v1", "Pod") if pod["spec"].get("nodeName") == own]
    assert [meta["name"] for meta in there if meta["namespace"] not in daemons] == [toolbox.NAME]
    read = read_all({"nodes": ObjectRead("v1", "Node")}, kube)["nodes"]
    assert {node["metadata"]["name"] for node in read} == set(nodes) - {own}


def end_of(kube, job):
    """Return the node of a job's pod, and the reason and code with which its container ended last."""
    (pod,) = kube.list("v1", "Pod", NAMESPACE, f"job-name={job}")
    (status,) = pod["status"]["containerStatuses"]
    ended = status["state"].get("terminated") or status["lastState"]["terminated"]
    return pod["spec"]["nodeName"], ended["reason"], ended["exitCode"]


def selectors_of(variant):
    """Return the node selectors of a variant's jobs, by name."""
    bound = PACK.bind(parameters={**variant, "cluster.small-node": "n", "cluster.small-memory": "15360"})
    jobs = [obj for step in bound.inject for obj in step.spec["objects"] if obj["kind"] == "Job"]
    return {job["metadata"]["name"]: job["spec"]["template"]["spec"].get("nodeSelector") for job in jobs}


def test_either_job_fills_its_gpu_in_half_of_the_variants_and_is_kept_there_by_one_of_three_labels():
    kept = [(variant["full"], *selectors_of(variant)[variant["on-gpu"]]) for variant in PACK.variants]
    labels = ("kubernetes.io/hostname", "nvidia.com/gpu.memory", "nvidia.com/gpu.product")
    assert sorted(kept) == [(full, label) for full in ("embed", "tune") for label in labels]
    assert [selectors_of(variant)[variant["killed"]] for variant in PACK.variants] == [None] * 6


@pytest.mark.parametrize("variant", PACK.variants, ids=lambda variant: variant["tune"])
def test_the_killed_job_keeps_more_than_its_container_holds_and_less_than_the_solutions_allow(variant):
    pieces, limit = ("shards", "embed-limit") if variant["full"] == "tune" else ("ahead", "tune-limit")
    gib = int(variant[pieces]) / 2
    assert int(variant[limit].removesuffix("Gi")) < gib < 16


@pytest.mark.parametrize("variant", WITH_INDEX_ON_GPU, ids=lambda variant: variant["tune"])
def test_an_index_on_the_gpu_is_larger_than_a_small_gpu_and_smaller_than_a_large_one(variant):
    assert 15 < int(variant["shards"]) / 2 < 38_000 / 1024 - 2
