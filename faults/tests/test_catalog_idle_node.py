"""Routes through the scenario of the idle node that are not among its solutions, and wrong turns that outlast it.

Each has a practice cluster of its own, whose time is moved on.
"""

from __future__ import annotations

import copy
import time
import uuid
from contextlib import contextmanager

import pytest

from faults import services
from faults.catalog_check.scene import Scene
from faults.catalog_check.stage import open_stage
from faults.packs.pack import CLUSTER
from faults.services import seed_catalog
from faults.tests.variants import PACKS

pytestmark = [pytest.mark.django_db, pytest.mark.torture]
PACK = next(pack for pack in PACKS if pack.slug == "idle-node")
HOLDER = "test"


class Candidate:
    """Somebody with the candidate's rights where the fault is."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.kube = scene, scene.shell.kube
        self.namespace, self.job = scene.run.namespaces["workloads"], scene.run.parameters["job"]
        self.full, self.idle = (scene.run.parameters[CLUSTER + name] for name in ("full", "idle"))

    def bring(self, change=lambda spec: None):
        """Delete the job and wait for its pods, then create it without any rule about places."""
        job = self.kube.get("batch/v1", "Job", self.job, self.namespace)
        spec = copy.deepcopy(job["spec"])
        for name in ("selector", "manualSelector"):
            spec.pop(name, None)
        spec["template"]["metadata"] = {"labels": {"app": self.job}}
        for name in ("affinity", "topologySpreadConstraints"):
            spec["template"]["spec"].pop(name, None)
        change(spec)
        self.kube.delete("batch/v1", "Job", self.job, self.namespace)
        self.until(lambda: "" if not self.pods() else "the old pods hold their GPUs")
        meta = {"name": self.job, "namespace": self.namespace}
        self.kube.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})

    def pods(self):
        return self.kube.list("v1", "Pod", self.namespace, f"app={self.job}")

    def until(self, lacking):
        return self.scene.until(lacking, 1.0)

    def open_checks(self):
        seen = self.scene.look()
        return self.scene.broken_guards(seen) or self.scene.open_checks(seen)


@contextmanager
def play(cause):
    """Give a candidate before the fault of this cause."""
    version = next(row for row in seed_catalog() if row.scenario.slug == PACK.slug)
    (values,) = PACK.variants_with({"cause": cause})
    with open_stage(version, PACK.bind(parameters=values), values, f"i-{uuid.uuid4().hex[:10]}") as stage:
        run = services.inject_run(run_id=stage.plan().pk, holder=HOLDER)
        scene = Scene(run, stage.shell, stage.clock)
        scene.until(scene.lacking_symptom)
        yield Candidate(scene)


def with_two_large_workers(spec):
    spec |= {"completions": 2, "parallelism": 2}
    container = spec["template"]["spec"]["containers"][0]
    container["args"][-1] = "2"
    container["resources"]["limits"] = {"nvidia.com/gpu": "4"}
    container["resources"]["requests"] |= {"nvidia.com/gpu": "4"}


def kept_apart_if_possible(spec):
    labels = {"matchLabels": {"app": spec["template"]["metadata"]["labels"]["app"]}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": labels}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}
    spec["template"]["spec"]["affinity"] = {"podAntiAffinity": preferred}


@pytest.mark.parametrize(
    ("cause", "change"),
    [
        pytest.param("one-host", lambda spec: None, id="the-affinity-removed"),
        pytest.param("together", with_two_large_workers, id="two-workers-with-four-gpus"),
        pytest.param("no-spread", kept_apart_if_possible, id="a-preference-that-outweighs-the-processors"),
    ],
)
def test_it_accepts_every_placement_that_ends_half_and_half(cause, change, practice):
    with play(cause) as candidate:
        candidate.bring(change)
        candidate.until(candidate.open_checks)


def test_without_a_rule_the_scheduler_puts_all_on_one_node_again(practice):
    with play("no-spread") as candidate:
        candidate.bring()
        candidate.until(
            lambda: "" if len(nodes := places(candidate)) == 4 and len(set(nodes)) == 1 else "not all run"
        )
        assert candidate.scene.look()["both-nodes"].verdict == "fail"


def test_pods_that_are_deleted_come_back_to_one_node(practice):
    with play("cordon") as candidate:
        old = {pod["metadata"]["uid"] for pod in candidate.pods()}
        for pod in candidate.pods():
            candidate.kube.delete("v1", "Pod", pod["metadata"]["name"], candidate.namespace)
        candidate.until(lambda: "" if places(candidate, without=old) == [candidate.full] * 4 else "not all are back")
        assert candidate.scene.look()["both-nodes"].verdict == "fail"


def test_closing_the_full_node_moves_nothing_and_breaks_a_guard(practice):
    with play("cordon") as candidate:
        candidate.kube.patch("v1", "Node", candidate.full, "", {"spec": {"unschedulable": True}})
        seen = candidate.scene.look()
        assert seen["both-nodes"].verdict == "fail"
        assert seen["nodes-stay"].verdict == "fail"
        assert f"{candidate.full} (cordoned)" in seen["nodes-stay"].finding


def places(candidate, without=()):
    """Return the node of each pod that runs."""
    pods = [pod for pod in candidate.pods() if pod["metadata"]["uid"] not in without]
    return [pod["spec"]["nodeName"] for pod in pods if pod["status"]["phase"] == "Running"]


def test_a_command_that_waits_takes_the_clusters_time_and_not_the_machines(practice):
    with play("one-host") as candidate:
        clock, machine = candidate.scene.clock, time.monotonic()
        began = clock.now()
        candidate.scene.shell.run("sleep 600")
        assert (clock.now() - began).total_seconds() > 500
        assert time.monotonic() - machine < 300
