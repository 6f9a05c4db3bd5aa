"""A fault run's life on a practice cluster: plan, inject, symptom, repair, revert."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from faults import clock, selectors, services
from faults.engine import compare, fingerprint
from faults.errors import AlreadyExists, Conflict, Forbidden, NotFound, NotYet
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.kube.mirror import NAMESPACE, stored
from faults.models import FaultRun, Step
from faults.services import planning
from faults.tests.clusters import eventually
from faults.tests.conftest import NAMESPACES, deadline
from faults.tests.variants import FIRST_PACK

pytestmark = pytest.mark.django_db
IMAGES = FIRST_PACK
Status = FaultRun.Status
HOME = "ml-training"


def test_a_practice_cluster_has_settled_when_it_is_there(practice, db):
    """It begins with an image, which the host takes soon after its start; without, its pods take seconds to start."""
    assert any(phases_of_a_new_cluster() == {"Running"} for _ in range(50))


def phases_of_a_new_cluster() -> set[str]:
    """Return the phases of the pods of a cluster that has just been made."""
    cluster = services.ensure_practice_cluster(name=f"t-{uuid.uuid4().hex[:10]}", deadline=deadline())
    pods = selectors.kube_for(cluster).list("v1", "Pod")
    services.release_cluster(cluster=cluster)
    return {pod["status"]["phase"] for pod in pods}


def test_an_environment_can_be_made_and_leaves_nothing(cluster, kube):
    before = fingerprint(kube, [HOME])
    run = services.plan_environment_run(cluster=cluster, namespaces=NAMESPACES, deadline=deadline())
    lines = []
    run = services.inject_run(run_id=run.pk, holder="w", report=lambda phase, detail: lines.append(detail))
    assert run.status == Status.ACTIVE
    assert f"Creating Namespace {HOME}" in lines
    assert [mirror.deadline for mirror in stored(kube)] == [run.deadline]

    run = services.revert_run(run_id=run.pk, holder="w")
    assert (run.status, run.residue) == (Status.REVERTED, [])
    assert compare(before, fingerprint(kube, [HOME])) == []
    with pytest.raises(NotFound):
        kube.get("v1", "Namespace", NAMESPACE)


def names(kube, api_version, kind):
    return {obj["metadata"]["name"] for obj in kube.list(api_version, kind)}


def test_what_was_being_deleted_before_the_session_is_not_missing_after_it(cluster, kube):
    meta = {"name": "going", "finalizers": ["example.com/hold"]}
    kube.create({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": 1})
    kube.delete("scheduling.k8s.io/v1", "PriorityClass", "going")
    run = services.plan_environment_run(cluster=cluster, namespaces=NAMESPACES, deadline=deadline())
    services.inject_run(run_id=run.pk, holder="w")
    kube.patch("scheduling.k8s.io/v1", "PriorityClass", "going", "", {"metadata": {"finalizers": None}})
    assert "going" not in names(kube, "scheduling.k8s.io/v1", "PriorityClass")
    run = services.revert_run(run_id=run.pk, holder="w")
    assert (run.status, run.residue) == (Status.REVERTED, [])


def test_a_namespace_of_copies_that_was_being_deleted_is_made_anew_and_goes_again(cluster, kube):
    meta = {"name": NAMESPACE, "finalizers": ["example.com/hold"]}
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    kube.delete("v1", "Namespace", NAMESPACE)
    run = services.plan_environment_run(cluster=cluster, namespaces=NAMESPACES, deadline=deadline())
    FaultRun.objects.filter(pk=run.pk).update(fingerprint_before=fingerprint(kube, [HOME]))
    kube.patch("v1", "Namespace", NAMESPACE, "", {"metadata": {"finalizers": None}})
    eventually(lambda: NAMESPACE not in names(kube, "v1", "Namespace"))
    services.inject_run(run_id=run.pk, holder="w")
    assert services.revert_run(run_id=run.pk, holder="w").residue == []
    assert NAMESPACE not in names(kube, "v1", "Namespace")


def test_the_whole_life_of_a_fault(fault, kube, environment):
    before = fingerprint(kube, [HOME])
    run = services.inject_run(run_id=fault.pk, holder="w")
    assert run.status == Status.INJECTING
    assert run.injected_at is not None
    run = services.confirm_symptom(run_id=fault.pk, holder="w", timeout_s=30)
    assert (run.status, run.error) == (Status.ACTIVE, "")
    assert run.symptom_at is not None
    assert "CrashLoopBackOff" in run.detail
    assert "2 of 2 replicas available" in run.detail

    run = services.revert_run(run_id=fault.pk, holder="w")
    assert (run.status, run.residue) == (Status.REVERTED, [])
    assert compare(before, fingerprint(kube, [HOME])) == []
    run = services.revert_run(run_id=environment.pk, holder="w")
    assert (run.status, run.residue) == (Status.REVERTED, [])


def test_a_fault_notes_the_namespaces_looks_like_a_tenants_and_is_there_once_however_often_its_job_comes(fault, kube):
    before = {f"v1/Namespace {name}" for name in names(kube, "v1", "Namespace")}
    assert set(services.inject_run(run_id=fault.pk, holder="w").fingerprint_before or {}) == before
    jobs = kube.list("batch/v1", "Job", HOME)
    assert "kubectl.kubernetes.io/last-applied-configuration" in jobs[0]["metadata"]["annotations"]
    managers = {entry["manager"] for entry in jobs[0]["metadata"].get("managedFields", [])}
    assert managers <= {"kubectl-client-side-apply", "kube-controller-manager"}
    services.inject_run(run_id=fault.pk, holder="x")
    again = kube.list("batch/v1", "Job", HOME)
    assert {obj["metadata"]["uid"] for obj in again} == {obj["metadata"]["uid"] for obj in jobs}
    assert Step.objects.filter(run=fault).count() == len(selectors.changes_of(fault))


def test_a_symptom_that_does_not_show_fails_the_run_with_what_was_seen(fault, kube):
    services.inject_run(run_id=fault.pk, holder="w")
    for job in kube.list("batch/v1", "Job", HOME):
        kube.delete("batch/v1", "Job", job["metadata"]["name"], HOME)
    run = services.confirm_symptom(run_id=fault.pk, holder="w", timeout_s=0)
    assert run.status == Status.FAILED
    assert run.error.startswith("The symptom did not show within 0 s: ")


def test_what_a_cluster_forgot_after_it_was_injected_is_made_again(fault, kube):
    services.inject_run(run_id=fault.pk, holder="w")
    for job in kube.list("batch/v1", "Job", HOME):
        kube.delete("batch/v1", "Job", job["metadata"]["name"], HOME)
    with pytest.raises(NotYet):
        services.confirm_symptom(run_id=fault.pk, holder="w", hold_s=0.1)
    assert services.confirm_symptom(run_id=fault.pk, holder="w", timeout_s=30).status == Status.ACTIVE


class PatientClock:
    """A clock that goes on only while somebody waits."""

    def __init__(self, now):
        self._now = now

    def now(self):
        return self._now

    def wait(self, seconds):
        self._now += timedelta(seconds=seconds)


def test_how_long_a_symptom_was_looked_for_is_noted_once_a_second(fault, monkeypatch):
    services.inject_run(run_id=fault.pk, holder="w")
    looks = []
    monkeypatch.setattr("faults.services.running._look_at", lambda *_: (bool(looks.append(1)), "no pod yet"))
    with CaptureQueriesContext(connection) as asked:
        run = services.confirm_symptom(run_id=fault.pk, holder="w", clock=PatientClock(clock.now()), timeout_s=3.0)
    notes = [query for query in asked.captured_queries if 'SET "looked_seconds" = ' in query["sql"]]
    assert run.status == Status.FAILED
    assert run.looked_seconds >= 3.0
    assert len(looks) > 25
    assert len(notes) <= 5, notes


def test_a_name_that_is_taken_fails_the_run_and_says_so(fault, kube):
    taken = selectors.changes_of(fault)[0].object
    kube.create(taken)
    with pytest.raises(Conflict, match="not ours"):
        services.inject_run(run_id=fault.pk, holder="w")
    fault.refresh_from_db()
    assert fault.status == Status.FAILED
    assert "is there already" in fault.error

    run = services.revert_run(run_id=fault.pk, holder="w")
    assert (run.status, run.residue) == (Status.REVERTED, [])
    with pytest.raises(AlreadyExists):
        kube.create(taken)


def test_a_dropped_cluster_counts_as_reverted(fault, environment):
    services.inject_run(run_id=fault.pk, holder="w")
    services.release_cluster(cluster=environment.cluster)
    run = services.revert_run(run_id=fault.pk, holder="w")
    assert (run.status, run.residue) == (Status.REVERTED, [])
    assert not Step.objects.filter(run=fault).exclude(status=Step.Status.REVERTED).exists()


def test_access_can_be_taken_and_given_back(environment):
    access = services.candidate_access(run=environment, seconds=600)
    kube = Kube(parse(access.kubeconfig))
    services.revoke_access(run=environment)
    services.revoke_access(run=environment)
    with pytest.raises(Forbidden):
        kube.list("v1", "Pod", HOME)
    services.restore_access(run=environment)
    assert kube.list("v1", "Pod", HOME) == []
    kube.close()
    run = services.revert_run(run_id=environment.pk, holder="w")
    assert run.residue == []


@pytest.mark.torture  # as test_catalog_proof.py has it for every pack
def test_nothing_a_candidate_can_read_tells(fault, environment):
    services.inject_run(run_id=fault.pk, holder="w")
    access = services.candidate_access(run=environment, seconds=600)
    kube = Kube(parse(access.kubeconfig))
    texts = []
    for resource in kube.kinds():
        try:
            texts.append(str(kube.list(resource.api_version, resource.kind, HOME if resource.namespaced else "")))
        except (Forbidden, NotFound):
            continue
    seen = " ".join(texts).lower().replace("default", "")
    assert "ml-training" in seen
    for word in ("fault", "inject", "simulat", "interview", "kubesim", "chaos", "candidate"):
        assert word not in seen, word
    kube.close()


def test_a_seed_always_draws_the_same_variant(version):
    pack = replace(selectors.pack_of(version), variants=({"job": "a"}, {"job": "b"}, {"job": "c"}))
    assert planning.draw_variant(pack, 3) == planning.draw_variant(pack, 3)
    assert len({planning.draw_variant(pack, seed)["job"] for seed in range(24)}) == 3


def test_seeding_the_catalogue_twice_changes_nothing_and_reads_no_pack_again(db, monkeypatch):
    first = services.seed_catalog()
    monkeypatch.setattr("faults.packs.parse", lambda files: pytest.fail("a pack was read again"))
    assert [v.pk for v in services.seed_catalog()] == [v.pk for v in first]


def test_whoever_called_hears_of_it_while_something_is_waited_for(fault, monkeypatch):
    """A session's lease lives by these reports; nothing else says that its worker is alive."""
    services.inject_run(run_id=fault.pk, holder="w")
    monkeypatch.setattr("faults.services.work.BEAT_S", 0.0)
    monkeypatch.setattr("faults.services.running._look_at", lambda symptom, reader: (False, "no pod yet"))
    lines = []
    services.confirm_symptom(
        run_id=fault.pk, holder="w", timeout_s=0.5, report=lambda phase, detail: lines.append(detail)
    )
    assert lines.count("no pod yet") > 2
