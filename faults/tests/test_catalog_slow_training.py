"""The scenario of a GPU that is held and not used: what its conditions see, and each variant's smallest repair.

The repairs share one practice cluster; each has a namespace with the work of the session's candidate in it.
"""

from __future__ import annotations

import copy
import itertools
import json
import threading
import time as machine_time
from datetime import UTC, datetime, timedelta

import pytest

from faults import checks
from faults import practice as practice_clusters
from faults.errors import Unanswered
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.tests.candidates import kubeconfig_with_rights
from faults.tests.objects import ObjectReader, make_node, make_pod
from faults.tests.prometheus_server import sample
from faults.tests.variants import PACKS

PACK = next(pack for pack in PACKS if pack.slug == "slow-training")
HARMLESS = {"hidden": "TPU", "setting": "TF_XLA_FLAGS", "visible": "0", "device": "auto", "first": "0"}
NUMBERS = itertools.count(1)
PATIENCE_S = 120.0


def variant_of(job):
    return next(row for row in PACK.variants if row["job"] == job)


# Without a cluster.


def test_in_each_variant_one_setting_is_wrong_and_no_two_are_alike():
    wrong = [{name for name, value in HARMLESS.items() if row[name] != value} for row in PACK.variants]
    assert sorted(map(len, wrong)) == [1, 1, 1, 1, 1]
    assert set().union(*wrong) == HARMLESS.keys()


def test_statement_and_hints_of_tier_1_name_no_setting():
    for row in PACK.variants:
        bound = PACK.bind(parameters=row)
        told = bound.statement + "".join(hint.text for hint in bound.hints if hint.tier == 1)
        assert not [word for word in ("CUDA", "visible", "set_", "CPU", "first_gpu", "device:") if word in told]


class Figures(ObjectReader):
    """A job of which Prometheus, nvidia-smi and the log say what a test wants."""

    def __init__(self, *objects, util=(), smi="0", log="", page=200):
        names = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "Pod"]
        super().__init__(*objects, logs=dict.fromkeys(names, log))
        self.util, self.smi, self.page = dict(util), smi, page

    def query(self, promql):
        return [sample(value, pod=pod) for pod, value in self.util.items()]

    def run_command(self, namespace, pod, container, command):
        return 0, f"{self.smi}\n"

    def fetch(self, namespace, server, path):
        if not self.page:
            raise Unanswered("nobody answers")
        return self.page, b""

    def review_access(self, user, attributes):
        return {"allowed": False}


def trainer(name="click-model-a", created="2026-01-05T12:00:00Z"):
    pod = make_pod(name, namespace="ml-ranking", job="click-model")
    pod["metadata"]["creationTimestamp"] = created
    pod["status"]["containerStatuses"][0]["state"] = {"running": {}}
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    return pod


def looked(reader):
    bound = PACK.bind(parameters=variant_of("click-model"))
    return {key: (each.verdict, each.finding) for key, each in checks.evaluate_all(bound.checks, reader).items()}


def test_only_the_newest_pod_counts_as_busy():
    old, new = trainer(), trainer("click-model-b", "2026-01-05T12:30:00Z")
    seen = looked(Figures(new, old, util={"click-model-a": 97, "click-model-b": 0}))
    assert seen["gpu-busy"] == ("fail", "click-model-b, Running: 0 % at most in the last minute")
    assert looked(Figures(new, old, util={"click-model-b": 58}))["gpu-busy"][0] == "pass"
    assert looked(Figures(new, util={}))["gpu-busy"] == ("fail", "click-model-b, Running: no GPU in Prometheus yet")
    assert looked(Figures())["gpu-busy"] == ("fail", "no pod of the job")


def test_a_busy_gpu_alone_is_no_repair():
    seen = looked(Figures(trainer(), util={"click-model-a": 97}, smi="520", log="epoch 1 loss 0.2 235 samples/s"))
    assert {key: verdict for key, (verdict, _) in seen.items()} == {
        "gpu-busy": "pass",
        "memory-in-use": "fail",
        "trains-fast": "fail",
        "same-work": "fail",
    }
    assert seen["memory-in-use"][1].startswith("click-model-a: 520")


def test_guards_break_on_a_silent_neighbour_a_cordon_and_a_pod_that_reaches_into_its_node():
    mighty = trainer()
    mighty["spec"]["hostPID"] = True
    bound = PACK.bind(parameters=variant_of("click-model"))
    well = checks.evaluate_all(bound.guards, Figures(trainer(), make_node()))
    assert {each.verdict for each in well.values()} == {"pass"}
    broken = checks.evaluate_all(bound.guards, Figures(mighty, make_node(unschedulable=True), page=0))
    failed = {key: each.finding for key, each in broken.items() if each.verdict == "fail"}
    assert failed.keys() == {"neighbour-answers", "nodes-untouched", "no-host-access"}
    assert failed["neighbour-answers"] == "no answer: nobody answers"
    assert failed["nodes-untouched"] == "node-1 with 0 GPUs (cordoned)"


# In a cluster.


class Work:
    """The job of one variant in a namespace, and the candidate's client."""

    def __init__(self, admin: Kube, variant) -> None:
        self.admin, self.namespace = admin, f"ml-ranking-{next(NUMBERS)}"
        self.pack = PACK.bind({"workloads": self.namespace}, variant)
        self.name = variant["job"]
        kubeconfig = kubeconfig_with_rights(admin, self.pack)
        for step in self.pack.inject:
            for obj in step.spec["objects"]:
                admin.create(obj)
        self.kube = Kube(parse(kubeconfig))

    def job(self):
        made = [obj for step in self.pack.inject for obj in step.spec["objects"]]
        return copy.deepcopy(next(obj for obj in made if obj["kind"] == "Job"))

    def bring(self, job):
        """Delete the job and create this one."""
        self.kube.delete("batch/v1", "Job", self.name, self.namespace)
        eventually(lambda: not self.kube.list("batch/v1", "Job", self.namespace))
        self.kube.create(job)

    def change(self, name, key, change):
        """Change one text of a config map."""
        text = self.kube.get("v1", "ConfigMap", name, self.namespace)["data"][key]
        self.kube.patch("v1", "ConfigMap", name, self.namespace, {"data": {key: change(text)}})

    def shows(self):
        return all(checks.evaluate(part, self.admin).verdict == "pass" for part in self.pack.symptom)

    def look(self):
        return checks.evaluate_all((*self.pack.checks, *self.pack.guards), self.admin)

    def verdicts(self):
        return {outcome.verdict for outcome in self.look().values()}


def eventually(true, look=lambda: "it did not happen in time"):
    end, gate = machine_time.monotonic() + PATIENCE_S, threading.Event()
    while not (answer := true()):
        assert machine_time.monotonic() < end, look()
        gate.wait(1.0)
    return answer


@pytest.fixture
def admin(practice):
    """One cluster for all variants, made by the first that asks."""
    until = datetime.now(UTC) + timedelta(hours=1)
    made = practice_clusters.create("catalog-slow-training", until, 1, 8, present=PACK.requires.images)
    kube = Kube(parse(made["kubeconfig"]))
    yield kube
    kube.close()


def no_longer_hidden(work):
    work.change("trainer-code", "train.py", lambda text: text.replace('[], "GPU"', '[], "TPU"'))


def first_card(work):
    work.change("trainer-code", "settings.json", lambda text: json.dumps(json.loads(text) | {"first_gpu": 0}))


def any_device(work):
    work.change("trainer-code", "settings.json", lambda text: json.dumps(json.loads(text) | {"device": "auto"}))


def all_cards(work):
    patch = {"data": {"CUDA_VISIBLE_DEVICES": None}}
    work.kube.patch("v1", "ConfigMap", "runtime-settings", work.namespace, patch)


REPAIRS = {
    "click-model": no_longer_hidden,
    "churn-model": None,
    "price-model": all_cards,
    "route-model": any_device,
    "search-model": first_card,
}


@pytest.mark.torture
@pytest.mark.parametrize("job", REPAIRS)
def test_the_one_wrong_setting_corrected_repairs_each_variant(job, admin):
    work = Work(admin, variant_of(job))
    eventually(work.shows, work.look)
    assert work.verdicts() == {"pass", "fail", "not_run"}
    repaired = work.job()
    if (repair := REPAIRS[job]) is None:
        del repaired["spec"]["template"]["spec"]["containers"][0]["env"]
    else:
        repair(work)
    work.bring(repaired)
    eventually(lambda: work.verdicts() == {"pass"}, work.look)
    work.kube.close()
    admin.delete("v1", "Namespace", work.namespace)
