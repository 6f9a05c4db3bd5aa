"""Routes through the first pack that nobody foresaw: right ones must pass whatever their form, wrong ones must not.

All tests share one practice cluster; each has a namespace and a candidate of its own. ``make test`` walks one route
of each kind, ``make torture`` also its neighbours, which the same line of the pack lets pass or finds out.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import shutil
import subprocess
import threading
import time as machine_time
from datetime import UTC, datetime, timedelta

import pytest

from faults import checks
from faults import practice as practice_clusters
from faults.errors import Invalid
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.tests.candidates import kubeconfig_with_rights
from faults.tests.variants import PACKS, objects_of

PACK = next(pack for pack in PACKS if pack.slug == "architecture-mismatch")
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
PATIENCE_S = 60.0
LARGE = "pytorch/pytorch:2.4.0"
PRINTS = "print('training finished: 3 epochs, loss 0.217')"
NUMBERS = itertools.count(1)
needs_kubectl = [
    pytest.mark.kubectl,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl on PATH"),
]


class Candidate:
    """Somebody with the candidate's rights in a namespace where the fault is."""

    def __init__(self, admin: Kube, namespace: str, folder) -> None:
        self.admin, self.namespace, self.folder = admin, namespace, folder
        self.pack = PACK.bind({"workloads": namespace})
        self.job = self.pack.checks[0].condition.reads["jobs"].name
        self.kubeconfig = kubeconfig_with_rights(admin, self.pack)
        for step in self.pack.inject:
            for obj in step.spec["objects"]:
                text = json.dumps(obj, separators=(",", ":")) + "\n"
                notes = {"kubectl.kubernetes.io/last-applied-configuration": text}
                admin.create({**obj, "metadata": {**obj["metadata"], "annotations": notes}})
        self.kube = Kube(parse(self.kubeconfig))

    def manifest(self, **container):
        """Return a right job; keywords change its container."""
        (job,) = objects_of(self.pack.solutions[0])
        job["spec"]["template"]["spec"]["containers"][0] |= container
        return job

    def bring(self, job):
        """Delete the job and create this one."""
        self.kube.delete("batch/v1", "Job", self.job, self.namespace)
        eventually(lambda: self.job not in self.names("batch/v1", "Job"))
        self.kube.create(job)

    def names(self, api_version, kind):
        return [obj["metadata"]["name"] for obj in self.kube.list(api_version, kind, self.namespace)]

    def kubectl(self, *arguments, stdin=""):
        (self.folder / "config").write_text(self.kubeconfig)
        answer = subprocess.run(
            ["kubectl", *arguments],
            input=stdin,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "KUBECONFIG": str(self.folder / "config")},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def look(self):
        return checks.evaluate_all((*self.pack.checks, *self.pack.guards), self.admin)

    def verdicts(self):
        return {outcome.verdict for outcome in self.look().values()}


@pytest.fixture
def candidate(practice_cluster, tmp_path):
    candidate = Candidate(practice_cluster, f"ml-training-{next(NUMBERS)}", tmp_path)
    eventually(lambda: candidate.look()["neighbour-serves"].verdict == "pass")
    yield candidate
    candidate.kube.close()
    practice_cluster.delete("v1", "Namespace", candidate.namespace)


@pytest.fixture
def practice_cluster(practice):
    """One cluster for all tests of this file, made by the first that asks."""
    until = datetime.now(UTC) + timedelta(hours=1)
    present = [LARGE, *PACK.requires.images]  # the pull of the first takes 40 s
    made = practice_clusters.create("catalog-routes", until, present=present)
    kube = Kube(parse(made["kubeconfig"]))
    yield kube
    kube.close()


def eventually(true, look=lambda: "it did not happen in time"):
    end, gate = machine_time.monotonic() + PATIENCE_S, threading.Event()
    while not (answer := true()):
        assert machine_time.monotonic() < end, look()
        gate.wait(0.2)  # a look costs 10 ms of computing, here and in the cluster
    return answer


# Right: each of these repairs the job, and is somebody's habit.


def with_image(image):
    return lambda candidate: candidate.bring(candidate.manifest(image=image))


def written_by_hand(candidate):
    job = candidate.manifest(name="train", command=["python3", "-c", PRINTS], args=[], imagePullPolicy="Always")
    job["metadata"] |= {"labels": {"team": "ml", "fixed": "yes"}, "annotations": {"why": "wrong platform"}}
    job["spec"] |= {"ttlSecondsAfterFinished": 3600, "backoffLimit": 2, "activeDeadlineSeconds": 600}
    job["spec"]["template"]["metadata"] = {"annotations": {"note": "amd64"}}
    candidate.bring(job)


def split_otherwise(candidate):
    candidate.bring(candidate.manifest(command=["python3", "-c"], args=[PRINTS]))


def pinned_to_the_architecture(candidate):
    job = candidate.manifest()
    job["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/arch": "amd64"}
    candidate.bring(job)


def never_restarting(candidate):
    job = candidate.manifest(resources={"limits": {"nvidia.com/gpu": 1}, "requests": {"nvidia.com/gpu": 1}})
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    candidate.bring(job)


def with_more_in_the_pod(candidate):
    job = candidate.manifest(env=[{"name": "PYTHONUNBUFFERED", "value": "1"}], workingDir="/tmp")
    spec = job["spec"]["template"]["spec"]
    spec["initContainers"] = [{"name": "which", "image": "busybox:1.36", "command": ["uname", "-m"]}]
    spec["volumes"] = [{"name": "scratch", "emptyDir": {}}]
    candidate.bring(job)


def after_a_restart_of_the_neighbour(candidate):
    note = {"kubectl.kubernetes.io/restartedAt": "2026-01-05T12:00:00Z"}
    patch = {"spec": {"template": {"metadata": {"annotations": note}}}}
    candidate.kube.patch("apps/v1", "Deployment", "embedding-api", candidate.namespace, patch)
    candidate.bring(candidate.manifest())


def after_a_try_of_its_own(candidate):
    pod = {"containers": [{"name": "try", "image": "python:3.9-slim", "command": ["uname", "-m"]}]}
    meta = {"name": "try", "namespace": candidate.namespace}
    candidate.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod})
    patch = {"spec": {"template": {"spec": {"activeDeadlineSeconds": 5}}}}
    with pytest.raises(Invalid, match="field is immutable"):
        candidate.kube.patch("batch/v1", "Job", candidate.job, candidate.namespace, patch)
    candidate.bring(candidate.manifest())


def replaced_by_force(candidate):
    text = candidate.kubectl("apply", "view-last-applied", "job", candidate.job)
    (candidate.folder / "job.yaml").write_text(text.replace("arm64v8/python:3.7-slim-stretch", "python:3.9-slim"))
    candidate.kubectl("replace", "--force", "-f", "job.yaml")


def got_edited_and_applied(candidate):
    job = json.loads(candidate.kubectl("get", "job", candidate.job, "-o", "json"))
    del job["status"], job["spec"]["selector"]
    labels = job["spec"]["template"]["metadata"]["labels"]
    job["spec"]["template"]["metadata"]["labels"] = {k: v for k, v in labels.items() if "controller-uid" not in k}
    job["spec"]["template"]["spec"]["containers"][0]["image"] = "python:3.9-slim"
    candidate.kubectl("delete", "job", candidate.job)
    candidate.kubectl("apply", "-f", "-", stdin=json.dumps(job))


def created_by_command(candidate):
    draft = candidate.kubectl(
        *("create", "job", candidate.job, "--image=python:3.11-slim", "--dry-run=client", "-o", "json"),
        *("--", "python3", "-c", PRINTS),
    )
    job = json.loads(draft)
    job["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    candidate.kubectl("replace", "--force", "-f", "-", stdin=json.dumps(job))


def later(*routes):
    """Return neighbours of another route, which are for ``make torture``."""
    return [pytest.param(route, marks=pytest.mark.torture) for route in routes]


RIGHT = [
    pytest.param(with_image(LARGE), id=LARGE),
    *(
        pytest.param(with_image(image), id=image, marks=pytest.mark.torture)
        for image in ("python", "docker.io/library/python:3.12", "amd64/python:3.9")
    ),
    written_by_hand,
    *later(split_otherwise),
    pinned_to_the_architecture,
    never_restarting,
    with_more_in_the_pod,
    after_a_restart_of_the_neighbour,
    after_a_try_of_its_own,
    pytest.param(replaced_by_force, marks=needs_kubectl),
    *(
        pytest.param(route, marks=[*needs_kubectl, pytest.mark.torture])
        for route in (got_edited_and_applied, created_by_command)
    ),
]


@pytest.mark.parametrize("route", RIGHT)
def test_it_accepts_every_right_route(route, candidate):
    route(candidate)
    eventually(lambda: candidate.verdicts() == {"pass"}, candidate.look)
    for check in candidate.pack.checks:
        held = None
        for seconds in (0, check.hold):
            outcome = candidate.look()[check.key]
            held = checks.hold(held, outcome.verdict, NOON + timedelta(seconds=seconds), check.hold)
        assert held.held_at == NOON + timedelta(seconds=check.hold)


# Wrong: each looks like a repair for a moment. The check or guard that finds it out, and what it says.


def replaced_by_true(candidate):
    candidate.bring(candidate.manifest(command=["true"], args=[]))
    return "same-work", "command: true; GPUs: 1"


def another_program(candidate):
    candidate.bring(candidate.manifest(args=["-c", "print('training finished')"]))
    return "same-work", "command: python3 -c print('training finished'); GPUs: 1"


def without_a_gpu(candidate):
    candidate.bring(candidate.manifest(resources={}))
    return "same-work", "GPUs: none"


def with_no_gpu_asked_for(candidate):
    candidate.bring(candidate.manifest(resources={"limits": {"nvidia.com/gpu": "0"}}))
    return "same-work", "GPUs: 0"


def with_two_gpus(candidate):
    candidate.bring(candidate.manifest(resources={"limits": {"nvidia.com/gpu": "2"}}))
    return "same-work", "GPUs: 2"


def the_gpu_in_another_container(candidate):
    job = candidate.manifest(resources={})
    holder = {"name": "holder", "image": "busybox:1.36", "command": ["true"]}
    holder["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    job["spec"]["template"]["spec"]["containers"].append(holder)
    candidate.bring(job)
    return "same-work", "GPUs: none; command: true; GPUs: 1"


def under_another_name(candidate):
    job = candidate.manifest()
    job["metadata"]["name"] = f"{candidate.job}-2"
    candidate.bring(job)
    eventually(lambda: any(done(obj) for obj in candidate.kube.list("batch/v1", "Job", candidate.namespace)))
    return "job-complete", "there is no job of that name"


def suspended(candidate):
    job = candidate.manifest()
    job["spec"]["suspend"] = True
    candidate.bring(job)
    return "job-complete", "image python:3.9-slim; pods: none"


def complete_without_a_pod(candidate):
    """No completions are asked for, and a pod made by hand has the job's label and prints the result."""
    job = candidate.manifest()
    job["spec"]["completions"] = 0
    candidate.bring(job)
    meta = {"name": "by-hand", "namespace": candidate.namespace, "labels": {"job-name": candidate.job}}
    pod = copy.deepcopy(job["spec"]["template"]["spec"])
    candidate.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod})
    eventually(lambda: done(candidate.kube.get("batch/v1", "Job", candidate.job, candidate.namespace)))
    return "job-complete", "pods: Succeeded"


def with_an_index_that_lacks_the_platform(candidate):
    candidate.bring(candidate.manifest(image="arm64v8/python:3.9-slim"))
    eventually(lambda: "Pull" in candidate.look()["job-complete"].finding)
    return "job-complete", "image arm64v8/python:3.9-slim; pods: "


def gone_after_it_finished(candidate):
    job = candidate.manifest()
    job["spec"]["ttlSecondsAfterFinished"] = 0
    candidate.bring(job)
    eventually(lambda: candidate.job not in candidate.names("batch/v1", "Job"))
    return "job-complete", "there is no job of that name"


def without_the_neighbour(candidate):
    candidate.bring(candidate.manifest())
    candidate.kube.delete("apps/v1", "Deployment", "embedding-api", candidate.namespace)
    return "neighbour-serves", "the deployment is gone"


def with_a_smaller_neighbour(candidate):
    candidate.bring(candidate.manifest())
    patch = {"spec": {"replicas": 1}}
    candidate.kube.patch("apps/v1", "Deployment", "embedding-api", candidate.namespace, patch)
    return "neighbour-serves", "of 1 replicas"


def with_a_changed_neighbour(candidate):
    candidate.bring(candidate.manifest())
    change = [{"name": "server", "image": "python:3.12-slim", "command": ["python3"], "args": ["-m", "http.server"]}]
    patch = {"spec": {"template": {"spec": {"containers": change}}}}
    candidate.kube.patch("apps/v1", "Deployment", "embedding-api", candidate.namespace, patch)
    return "neighbour-serves", "image python:3.12-slim"


PRIVILEGED = {"securityContext": {"privileged": True}}
MIGHTY = {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}
QEMU = {"name": "register", "image": "multiarch/qemu-user-static", "args": ["--reset", "-p", "yes"]}
REACHING = {
    "privileged": {"containers": [QEMU | PRIVILEGED]},
    "privileged-init": {"initContainers": [QEMU | PRIVILEGED], "containers": [{"name": "b", "image": "busybox"}]},
    "capability": {"containers": [QEMU | MIGHTY]},
    "host-path": {"containers": [QEMU], "volumes": [{"name": "h", "hostPath": {"path": "/proc/sys/fs"}}]},
    "host-pid": {"containers": [QEMU], "hostPID": True},
}


def with_an_emulator(spec):
    def route(candidate):
        candidate.bring(candidate.manifest())
        meta = {"name": "helper", "namespace": candidate.namespace}
        candidate.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": copy.deepcopy(spec)})
        return "no-host-access", "reaching into a node: helper"

    return route


def emulator(name):
    """Return the route of an emulator; one in an init container and one by a host path are for ``make test``."""
    often = name in ("privileged-init", "host-path")
    route = with_an_emulator(REACHING[name])
    return pytest.param(route, id=f"emulator-{name}", marks=() if often else pytest.mark.torture)


def done(job):
    return any(row["type"] == "Complete" for row in job.get("status", {}).get("conditions", []))


WRONG = [
    replaced_by_true,
    without_a_gpu,
    *later(another_program, with_no_gpu_asked_for, with_two_gpus),
    the_gpu_in_another_container,
    under_another_name,
    *later(suspended),
    complete_without_a_pod,
    with_an_index_that_lacks_the_platform,
    gone_after_it_finished,
    without_the_neighbour,
    *later(with_a_smaller_neighbour),
    with_a_changed_neighbour,
    *(emulator(name) for name in REACHING),
]


@pytest.mark.parametrize("route", WRONG)
def test_it_finds_out_every_wrong_route(route, candidate):
    key, words = route(candidate)
    outcome = eventually(lambda: found_out(candidate.look()[key], words))
    assert outcome.verdict == "fail"


def test_a_cordoned_or_relabelled_node_breaks_a_guard(candidate, practice_cluster):
    node = practice_cluster.list("v1", "Node")[0]["metadata"]["name"]
    for patch, undo in (
        ({"spec": {"unschedulable": True}}, {"spec": {"unschedulable": None}}),
        (
            {"metadata": {"labels": {"kubernetes.io/arch": "arm64"}}},
            {"metadata": {"labels": {"kubernetes.io/arch": "amd64"}}},
        ),
    ):
        practice_cluster.patch("v1", "Node", node, "", patch)
        assert candidate.look()["nodes-untouched"].verdict == "fail"
        practice_cluster.patch("v1", "Node", node, "", undo)
    assert candidate.look()["nodes-untouched"].verdict == "pass"


def found_out(outcome, words):
    return outcome if outcome.verdict == "fail" and words in outcome.finding else None
