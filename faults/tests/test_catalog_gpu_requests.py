"""Routes through the scenario of jobs without a GPU: right ones pass whatever their form.

All tests share one practice cluster; each has a namespace of its own, with the work of the session's candidate in it.
"""

from __future__ import annotations

import copy
import itertools
import threading
import time as machine_time
from datetime import UTC, datetime, timedelta

import pytest

from faults import checks
from faults import practice as practice_clusters
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.tests.candidates import kubeconfig_with_rights
from faults.tests.variants import PACKS

PACK = next(pack for pack in PACKS if pack.slug == "gpu-requests")
SELECTOR, COUNT = PACK.variants[0], PACK.variants[1]
NUMBERS = itertools.count(1)
PATIENCE_S = 60.0


class Work:
    """The two jobs of one variant in a namespace, and the candidate's client."""

    def __init__(self, admin: Kube, variant) -> None:
        self.admin, self.namespace = admin, f"ml-research-{next(NUMBERS)}"
        self.pack = PACK.bind({"workloads": self.namespace}, variant)
        self.large, self.small = variant["large"], variant["small"]
        self.kube = Kube(parse(kubeconfig_with_rights(admin, self.pack)))
        for step in self.pack.inject:
            for obj in step.spec["objects"]:
                admin.create(obj)

    def job(self, name, *, selector=None, gpus="1"):
        """Return a job as the team wrote it, with another selector and number of GPUs."""
        made = [obj for step in self.pack.inject for obj in step.spec["objects"]]
        job = copy.deepcopy(next(obj for obj in made if obj["metadata"]["name"] == name))
        pod = job["spec"]["template"]["spec"]
        pod.pop("nodeSelector", None)
        pod |= {"nodeSelector": selector} if selector else {}
        pod["containers"][0]["resources"]["limits"] = {"nvidia.com/gpu": gpus} if gpus else {}
        return job

    def bring(self, job):
        """Delete the job of that name and create this one."""
        name = job["metadata"]["name"]
        self.kube.delete("batch/v1", "Job", name, self.namespace)
        eventually(lambda: name not in self.names("batch/v1", "Job"))
        self.kube.create(job)

    def leave(self):
        """Delete the namespace, and its pods without their grace: the next test needs their GPUs."""
        self.kube.close()
        self.admin.delete("v1", "Namespace", self.namespace)
        for pod in self.admin.list("v1", "Pod", self.namespace):
            self.admin.delete("v1", "Pod", pod["metadata"]["name"], self.namespace, grace_seconds=0)

    def names(self, api_version, kind):
        return [obj["metadata"]["name"] for obj in self.kube.list(api_version, kind, self.namespace)]

    def look(self):
        return checks.evaluate_all((*self.pack.checks, *self.pack.guards), self.admin)

    def verdicts(self):
        return {outcome.verdict for outcome in self.look().values()}


@pytest.fixture
def cluster(practice):
    """One cluster for all tests of this file, made by the first that asks."""
    until = datetime.now(UTC) + timedelta(hours=1)
    made = practice_clusters.create("catalog-gpu-requests", until, present=PACK.requires.images)
    kube = Kube(parse(made["kubeconfig"]))
    yield kube
    kube.close()


@pytest.fixture
def work(cluster):
    """Give a variant's jobs in a namespace; gone at the end."""
    made = []

    def go(variant=SELECTOR):
        made.append(Work(cluster, variant))
        eventually(lambda: made[-1].look()["neighbour-serves"].verdict == "pass", made[-1].look)
        return made[-1]

    yield go
    for one in made:
        one.leave()


def eventually(true, look=lambda: "it did not happen in time"):
    end, gate = machine_time.monotonic() + PATIENCE_S, threading.Event()
    while not (answer := true()):
        assert machine_time.monotonic() < end, look()
        gate.wait(0.2)
    return answer


def by_affinity(work):
    job = work.job(work.large, gpus="4")
    rule = {"key": "nvidia.com/gpu.product", "operator": "Exists"}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    job["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": required}
    return job


def with_the_nodes_own_label(work):
    labels = [node["metadata"]["labels"] for node in work.admin.list("v1", "Node")]
    product = next(row["nvidia.com/gpu.product"] for row in labels if "nvidia.com/gpu.product" in row)
    return work.job(work.large, selector={"nvidia.com/gpu.product": product}, gpus="2")


def over_two_pods(work):
    job = work.job(work.large, gpus="8" if work.large == COUNT["large"] else "1")
    job["spec"] |= {"parallelism": 2, "completions": 2, "completionMode": "Indexed"}
    return job


RIGHT = [
    pytest.param(SELECTOR, by_affinity, id="selector-by-affinity"),
    pytest.param(SELECTOR, with_the_nodes_own_label, id="selector-with-the-nodes-own-label"),
    pytest.param(COUNT, lambda work: work.job(work.large, gpus="8"), id="count-as-many-as-a-node-has"),
    pytest.param(COUNT, lambda work: work.job(work.large, selector={COUNT["label"]: COUNT["value"]}), id="count-one"),
    pytest.param(SELECTOR, over_two_pods, id="selector-over-two-pods"),
]


@pytest.mark.parametrize(("variant", "large"), RIGHT)
def test_it_accepts_every_right_route(variant, large, work):
    work = work(variant)
    work.bring(large(work))
    work.bring(work.job(work.small))
    eventually(lambda: work.verdicts() == {"pass"}, work.look)


def test_deleting_the_pending_pod_changes_nothing(work):
    work = work()
    name = work.kube.list("v1", "Pod", work.namespace, f"job-name={work.large}")[0]["metadata"]["name"]
    work.kube.delete("v1", "Pod", name, work.namespace)
    eventually(lambda: name not in work.names("v1", "Pod"))
    outcome = work.look()["large-has-gpus"]  # the next pod comes after ten seconds, and is Pending as well
    assert (outcome.verdict, outcome.finding) == ("fail", "no pod of the job")


@pytest.mark.parametrize("variant", PACK.variants, ids=lambda variant: variant["large"])
def test_every_variant_shows_within_seconds(variant, work):
    work = work(variant)
    eventually(lambda: all(checks.evaluate(part, work.admin).verdict == "pass" for part in work.pack.symptom))
    assert work.verdicts() == {"pass", "fail", "not_run"}
