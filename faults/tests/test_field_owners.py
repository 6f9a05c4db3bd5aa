"""Owners of a patched object's fields: nothing in it says that, or when, it was patched."""

from __future__ import annotations

import pytest

from faults import selectors, services
from faults.catalog_check.errors import ProofFailed
from faults.catalog_check.traces import Traces
from faults.engine.model import Target
from faults.engine.ports import NoNeighbours
from faults.injectors import KINDS, PatchObject
from faults.injectors.field_owners import WRITER, hand_back_fields
from faults.models import Cluster
from faults.tests.conftest import deadline
from faults.tests.fakes import FakeCluster

pytestmark = pytest.mark.django_db
SETTINGS = Target("v1", "ConfigMap", "monitoring", "prometheus")
EXPORTER = Target("apps/v1", "DaemonSet", "gpu-operator", "nvidia-dcgm-exporter")
LABEL = {"metadata": {"labels": {"tier": "core"}}, "data": {"more": "x"}}


@pytest.fixture
def kube(standing):
    """The client of the cluster that all tests here share: each changes fields of its own."""
    return selectors.kube_for(standing.cluster)


def live(kube, target):
    return kube.get(target.api_version, target.kind, target.name, target.namespace)


def writes(obj):
    """Return who set fields of an object itself, and when."""
    entries = [entry for entry in obj["metadata"]["managedFields"] if "subresource" not in entry]
    return {(entry["manager"], entry["time"]) for entry in entries}


def patched(kube, target, patch):
    """Patch as the injector does."""
    change = PatchObject(target, patch)
    record = KINDS["patch"].plan(kube, 0, change, NoNeighbours())
    KINDS["patch"].apply(kube, change, record)
    return change, record


def test_a_patched_object_differs_from_its_neighbours_in_no_manager_and_no_time(kube):
    before = live(kube, SETTINGS)
    patched(kube, SETTINGS, LABEL)
    after = live(kube, SETTINGS)
    assert after["data"]["more"] == "x"
    assert writes(after) == writes(before)
    (own,) = after["metadata"]["managedFields"]
    assert {".", "f:more"} <= own["fieldsV1"]["f:data"].keys()
    assert own["fieldsV1"]["f:metadata"]["f:labels"]["f:tier"] == {}

    patched(kube, EXPORTER, {"metadata": {"labels": {"tier": "core"}}})  # rolls nothing out, which others would see
    assert {manager for manager, _ in writes(live(kube, EXPORTER))} == {manager for manager, _ in writes(before)}


def test_a_worker_that_died_after_its_patch_hands_the_fields_back_when_it_tries_again(kube):
    before = live(kube, SETTINGS)
    label = {"metadata": {"labels": {"died": "once"}}}
    change = PatchObject(SETTINGS, label)
    record = KINDS["patch"].plan(kube, 0, change, NoNeighbours())
    place = (SETTINGS.api_version, SETTINGS.kind, SETTINGS.name, SETTINGS.namespace)
    assert WRITER in {manager for manager, _ in writes(kube.patch(*place, label, field_manager=WRITER))}
    KINDS["patch"].apply(kube, change, record)
    assert writes(live(kube, SETTINGS)) == writes(before)
    version = live(kube, SETTINGS)["metadata"]["resourceVersion"]
    KINDS["patch"].apply(kube, change, record)
    assert live(kube, SETTINGS)["metadata"]["resourceVersion"] == version


def test_what_others_have_set_since_stays_theirs(kube):
    place = (SETTINGS.api_version, SETTINGS.kind, SETTINGS.name, SETTINGS.namespace)
    kube.patch(*place, {"metadata": {"labels": {"seen": "by-me"}}}, field_manager="kubectl-label")
    before = live(kube, SETTINGS)
    patched(kube, SETTINGS, {"metadata": {"labels": {"after": "them"}}})
    assert writes(live(kube, SETTINGS)) == writes(before)


def test_an_object_of_which_nobody_else_is_noted_is_left_alone():
    made = FakeCluster()
    made.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "lab"}})
    target = Target("v1", "ConfigMap", "lab", "a")
    made.before_write = lambda verb, key: (_ for _ in ()).throw(AssertionError(verb))
    ours = {"manager": WRITER, "operation": "Update", "fieldsV1": {"f:data": {}}}
    for entries in ([], [ours], [{**ours, "manager": "kubelet", "subresource": "status"}, ours]):
        obj = live(made, target)
        obj["metadata"]["managedFields"] = entries
        hand_back_fields(made, target, obj)


def test_events_of_a_roll_out_are_forgotten_and_warnings_stay_on_practice_clusters_alone(standing, kube):
    version = next(row for row in services.seed_catalog() if row.scenario.slug == "unseen-workload")
    run = services.plan_fault_run(
        cluster=standing.cluster, scenario_version=version, namespaces={}, parameters={}, seed=0, deadline=deadline()
    )
    for name, kind in (("started", "Normal"), ("failed", "Warning")):
        kube.create(event(name, kind))
    run.cluster.tier = Cluster.Tier.DEDICATED
    services.forget_rollouts(run=run)
    assert {"started", "failed"} <= events(kube)
    run.cluster.tier = Cluster.Tier.PRACTICE
    services.forget_rollouts(run=run)
    assert events(kube) == {"failed"}


def event(name, kind):
    meta = {"name": name, "namespace": "gpu-operator"}
    about = {"apiVersion": "v1", "kind": "Pod", "name": "exporter", "namespace": "gpu-operator"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": meta, "involvedObject": about, "type": kind}


def events(kube):
    return {obj["metadata"]["name"] for obj in kube.list("v1", "Event", "gpu-operator")}


def test_the_proof_finds_who_wrote_an_object_that_was_there_and_the_events_of_a_roll_out(kube):
    traces = Traces(kube, ["monitoring", "gpu-operator"])
    traces.refuse()
    place = (EXPORTER.api_version, EXPORTER.kind, EXPORTER.name, EXPORTER.namespace)
    label = {"metadata": {"labels": {"told": "yes"}}}
    kube.patch(*place, label, field_manager=WRITER)
    with pytest.raises(ProofFailed, match="DaemonSet gpu-operator/nvidia-dcgm-exporter was there before"):
        traces.refuse()
    hand_back_fields(kube, EXPORTER, live(kube, EXPORTER))
    kube.create(event("killing", "Normal"))
    with pytest.raises(ProofFailed, match="Event gpu-operator/killing tells of the injection"):
        traces.refuse()
