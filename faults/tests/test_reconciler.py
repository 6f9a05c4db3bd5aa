"""The reconciler, the janitor and the panic button: nothing outlives its deadline, whoever is dead."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command

from faults import crypto, guardrails, janitor, practice, reconciler, services
from faults.engine import Record, Target, compare, fingerprint
from faults.errors import Conflict, Forbidden, JournalError, NotFound, NotYet
from faults.kube.client import Kube
from faults.kube.mirror import NAMESPACE, Mirror, MirrorJournal, stored
from faults.models import Cluster, FaultRun
from faults.tests.variants import FIRST_PACK

pytestmark = pytest.mark.django_db
IMAGES = FIRST_PACK
Status = FaultRun.Status
HOME = "ml-training"


def later(seconds):
    return datetime.now(UTC) + timedelta(seconds=seconds)


@pytest.fixture
def active(fault):
    """An active fault; nobody here waits until its symptom shows."""
    services.inject_run(run_id=fault.pk, holder="w")
    FaultRun.objects.filter(pk=fault.pk).update(status=Status.ACTIVE, symptom_at=later(0))
    fault.refresh_from_db()
    return fault


def status_of(run):
    return FaultRun.objects.get(pk=run.pk).status


def test_it_reverts_what_is_overdue_the_fault_before_its_environment(active, environment):
    """Each cluster's duties are one call, which the observer makes in a thread of its own: one that hangs holds up no
    other."""
    calls = []

    def spread(cluster_id, duty):
        calls.append(cluster_id)
        return duty()

    assert reconciler.tick(later(3601), spread=spread) == 2
    assert calls == [environment.cluster_id]
    active.refresh_from_db()
    environment.refresh_from_db()
    assert (active.status, active.residue) == (Status.REVERTED, [])
    assert (environment.status, environment.residue) == (Status.REVERTED, [])
    assert reconciler.tick(later(3601)) == 0


def test_a_quarantined_run_is_finished_once_a_person_has_helped(active, environment, kube, monkeypatch):
    """The reconciler notices by asking the cluster; until then command and cause stay."""
    held = {"metadata": {"finalizers": ["example.com/never"]}}
    kube.patch("v1", "Namespace", HOME, "", held)  # which no candidate may
    services.revert_run(run_id=active.pk, holder="w")
    monkeypatch.setattr("faults.reconciler.HOLD_S", 0.2)
    FaultRun.objects.filter(pk=environment.pk).update(settling_at=later(-60))  # for long enough
    stuck = services.revert_run(run_id=environment.pk, holder="w", hold_s=0.2)
    command = """kubectl patch namespace ml-training --type=merge -p '{"metadata":{"finalizers":null}}'"""
    assert (stuck.status, stuck.manual_command) == (Status.QUARANTINED, command)
    assert "Namespace ml-training: is held by the finalizer example.com/never" in stuck.error

    assert reconciler.tick(stuck.tried_at) == 0  # with pauses, not at every look
    assert reconciler.tick(later(60)) == 1
    environment.refresh_from_db()
    assert (environment.status, environment.manual_command) == (Status.QUARANTINED, command)

    kube.patch("v1", "Namespace", HOME, "", {"metadata": {"finalizers": None}})
    for seconds in range(120, 300, 60):
        reconciler.tick(later(seconds))
    environment.refresh_from_db()
    assert (environment.status, environment.residue, environment.manual_command) == (Status.REVERTED, [], "")


def test_what_a_candidate_holds_in_the_sessions_namespaces_is_freed_without_a_person(active, environment, kube):
    """The fault's own objects, and others: nobody waits for what ends with the session."""
    for name in ("kept", "kept-too"):
        meta = {"name": name, "namespace": HOME, "finalizers": ["example.com/never"]}
        kube.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    jobs = [job["metadata"]["name"] for job in kube.list("batch/v1", "Job", HOME)]
    assert jobs
    for name in jobs:
        kube.patch("batch/v1", "Job", name, HOME, {"metadata": {"finalizers": ["example.com/never"]}})
    told = []
    for run in (active, environment):
        FaultRun.objects.filter(pk=run.pk).update(settling_at=later(-60))  # for long enough
        left = services.revert_run(run_id=run.pk, holder="w", hold_s=1.5, report=lambda *line: told.append(line[1]))
        assert (left.status, left.residue, left.manual_command) == (Status.REVERTED, [], "")
    freed = {line for line in told if line.startswith("Taking the finalizer")}
    objects = {f"ConfigMap {HOME}/kept", f"ConfigMap {HOME}/kept-too", *(f"Job {HOME}/{name}" for name in jobs)}
    assert freed == {f"Taking the finalizer example.com/never from {name}" for name in objects}


def test_a_run_is_not_clean_because_its_cluster_was_let_go(active, environment, capsys):
    """Released says something about our credentials, nothing about the cluster."""
    Cluster.objects.update(tier=Cluster.Tier.DEDICATED, released_at=later(0), kubeconfig="")
    with pytest.raises(CommandError, match="2 of the runs"):
        call_command("revert", "--all")
    assert "has no kubeconfig" in capsys.readouterr().err
    assert {status_of(active), status_of(environment)} == {Status.REVERTING}
    Cluster.objects.update(tier=Cluster.Tier.PRACTICE)


def test_a_failed_try_is_written_down_and_tried_less_and_less_often(active, settings, monkeypatch, caplog):
    monkeypatch.setattr("faults.backoff._random", random.Random(5))  # the same draws each time
    url, settings.KUBESIM_URL = settings.KUBESIM_URL, "https://127.0.0.1:9"
    pauses = []
    now = later(3601)
    for _ in range(6):
        assert reconciler.tick(now) == 0
        run = FaultRun.objects.get(pk=active.pk)
        pauses.append((run.next_try_at - run.tried_at).total_seconds())
        now = run.next_try_at + timedelta(seconds=11)
    settings.KUBESIM_URL = url
    assert (run.status, run.attempts) == (Status.REVERTING, 6)
    assert "cannot be reached" in run.error
    assert "Run: make run" in caplog.text
    assert 2 < max(pauses) <= 30
    reconciler.tick(now)
    run.refresh_from_db()
    assert (run.status, run.attempts, run.error) == (Status.REVERTED, 0, "")


def test_reverted_runs_are_looked_at_again_when_the_cluster_came_back_from_a_snapshot(active, environment, kube):
    """Put the old uids into the journal: objects from a snapshot are recognised by them."""
    for run in (active, environment):
        services.revert_run(run_id=run.pk, holder="w")
    rechecks = reconciler.Rechecks()
    assert reconciler.tick(later(0), rechecks=rechecks) == 0
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})
    uid = kube.get("v1", "Namespace", HOME)["metadata"]["uid"]
    environment.steps.filter(index=0).update(target_uid=uid)
    FaultRun.objects.filter(pk=environment.pk).update(reverted_version=10**9, reverted_at=later(-3600))

    assert reconciler.tick(later(5), rechecks=rechecks) == 0  # not at every look
    assert reconciler.tick(later(30), rechecks=rechecks) == 1
    assert status_of(environment) == Status.REVERTING
    reconciler.tick(later(60))
    environment.refresh_from_db()
    assert (environment.status, environment.residue) == (Status.REVERTED, [])
    with pytest.raises(NotFound):
        kube.get("v1", "Namespace", HOME)


def test_the_copy_of_the_journal_is_looked_for_too(active, kube):
    services.revert_run(run_id=active.pk, holder="w")
    mirror = Mirror(f"run-{active.uuid.hex}", later(0), (HOME,))
    MirrorJournal(kube, mirror).save(Record(0, "patch", Target("v1", "Node", "", "n"), {"action": "delete"}))
    assert reconciler.tick(later(30), rechecks=reconciler.Rechecks()) == 1
    reconciler.tick(later(60))
    assert status_of(active) == Status.REVERTED
    assert mirror.name not in [found.name for found in stored(kube)]


def test_a_cluster_that_has_dropped_itself_takes_its_faults_along(active, environment):
    practice.drop(environment.cluster.name)
    assert reconciler.tick(later(3601)) == 2
    assert status_of(active) == Status.REVERTED


def test_a_run_that_has_no_copy_yet_is_given_none_by_its_deadline(fault, kube):
    FaultRun.objects.filter(pk=fault.pk).update(mirrored_deadline=later(0))
    assert reconciler.tick(later(0)) == 1
    assert f"run-{fault.uuid.hex}" not in [mirror.name for mirror in stored(kube)]


@pytest.fixture
def kubeconfig(cluster, tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(crypto.unseal(cluster.kubeconfig))
    return path


def test_the_janitor_reverts_from_the_cluster_alone(cluster, kube, version):
    before = fingerprint(kube, [HOME])
    environment = services.plan_environment_run(cluster=cluster, namespaces={"workloads": HOME}, deadline=later(3600))
    services.inject_run(run_id=environment.pk, holder="w")
    fault = services.plan_fault_run(
        cluster=cluster,
        scenario_version=version,
        namespaces={"workloads": HOME},
        parameters={},
        seed=1,
        deadline=later(3600),
    )
    services.inject_run(run_id=fault.pk, holder="w")
    said = []
    assert janitor.sweep(kube, later(0), say=said.append) == []
    assert said == []

    FaultRun.objects.all().delete()  # everything of ours is dead
    assert janitor.sweep(kube, later(3601), say=said.append) == []
    assert said[0].startswith("Taking back Job")
    limits = f"Taking back ResourceQuota {HOME}/{guardrails.QUOTA}"
    assert said.index(f"Taking back Namespace {HOME}") < said.index(limits)
    with pytest.raises(NotFound):
        kube.get("v1", "Secret", f"run-{environment.uuid.hex}", NAMESPACE)
    _until_gone(kube)
    assert compare(before, fingerprint(kube, [HOME])) == []


def _hold(kube, finalizers):
    kube.patch("v1", "Namespace", NAMESPACE, "", {"metadata": {"finalizers": finalizers}}, field_manager="test")


def _until_gone(kube):
    """Wait until the namespace of the copies has gone."""
    for _ in range(200):
        try:
            kube.get("v1", "Namespace", NAMESPACE)
        except NotFound:
            return
        janitor._pause(0.02)
    raise AssertionError(f"{NAMESPACE} is still there")


@pytest.mark.torture
def test_the_janitor_frees_what_a_candidate_holds_in_the_sessions_namespaces(environment, kube, monkeypatch):
    meta = {"name": "kept", "namespace": HOME, "finalizers": ["example.com/never"]}
    kube.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    monkeypatch.setattr("faults.janitor.PATIENCE_S", 1.0)
    said = []
    assert janitor.sweep(kube, later(3601), say=said.append) == []
    assert f"Taking the finalizer example.com/never from ConfigMap {HOME}/kept" in said
    with pytest.raises(NotFound):
        kube.get("v1", "Namespace", HOME)


def test_after_the_janitor_the_database_still_finds_its_way(active, environment, kube):
    _hold(kube, ["test/hold"])
    janitor.sweep(kube, later(3601), say=lambda line: None)
    run = services.revert_run(run_id=active.pk, holder="w")
    assert (run.status, run.residue) == (Status.REVERTED, [])
    with pytest.raises(NotYet, match="Namespace platform-system is"):
        services.revert_run(run_id=environment.pk, holder="w", hold_s=0.2)
    assert status_of(environment) == Status.REVERTING  # no person is needed, and nothing is given up
    _hold(kube, [])
    _until_gone(kube)
    run = services.revert_run(run_id=environment.pk, holder="w")
    assert (run.status, run.residue) == (Status.REVERTED, [])


def test_the_janitor_can_be_run_by_hand(active, environment, kubeconfig, capsys):
    assert janitor.main(["--kubeconfig", str(kubeconfig)]) == 0
    kubeconfig.write_text("users: [{name: u, user: {exec: {command: id}}}]")
    assert janitor.main(["--kubeconfig", str(kubeconfig)]) == 2
    assert capsys.readouterr().err.strip()


def test_the_panic_button_for_one_run_or_all_needs_no_redis_and_no_worker(active, environment, settings, capsys):
    settings.RQ_QUEUES = {}
    call_command("revert", "--run", str(active.uuid))
    assert (status_of(active), status_of(environment)) == (Status.REVERTED, Status.ACTIVE)
    call_command("revert", "--all")
    assert capsys.readouterr().out.count("reverted, 0 left over") == 2
    assert status_of(environment) == Status.REVERTED


def test_a_revert_that_cannot_succeed_says_what_to_run_by_hand(active, monkeypatch, capsys):
    def refuse(self, *args, **kwargs):
        raise Forbidden("an admission webhook denied the request")

    with monkeypatch.context() as refusing:
        refusing.setattr(Kube, "delete", refuse)
        with pytest.raises(CommandError, match="1 of the runs"):
            call_command("revert", "--run", str(active.uuid))
    active.refresh_from_db()
    told = capsys.readouterr().err
    assert active.status == Status.QUARANTINED
    assert "kubectl delete job " in active.manual_command
    assert f"Run by hand:\n{active.manual_command}" in told
    assert "webhook denied" in active.error
    assert active.residue
    call_command("revert", "--all")  # a person has made way: the same button takes back what is left
    active.refresh_from_db()
    assert (active.status, active.residue, active.manual_command) == (Status.REVERTED, [], "")


def refuse_secrets(monkeypatch, error):
    """Let the cluster refuse to change or delete the journal's copy, and nothing else."""

    def refusing(method):
        def call(self, api_version, kind, *args, **kwargs):
            if kind == "Secret":
                raise error
            return method(self, api_version, kind, *args, **kwargs)

        return call

    monkeypatch.setattr(Kube, "patch", refusing(Kube.patch))
    monkeypatch.setattr(Kube, "delete", refusing(Kube.delete))


def test_a_copy_that_cannot_be_removed_is_told_as_itself_and_keeps_nothing_from_being_reverted(active, monkeypatch):
    with monkeypatch.context() as refusing:
        refuse_secrets(refusing, Conflict("the object has been modified"))
        with pytest.raises(JournalError, match="The journal's copy") as caught:
            services.revert_run(run_id=active.pk, holder="w")
    assert caught.value.retryable  # and no step's failure
    with monkeypatch.context() as refusing:
        refuse_secrets(refusing, Forbidden("a policy denied the request"))
        run = services.revert_run(run_id=active.pk, holder="w")
    secret = f"run-{active.uuid.hex}"
    assert run.status == Status.QUARANTINED
    assert run.manual_command == f"kubectl delete secret {secret} -n {NAMESPACE}"
    assert f"Secret {NAMESPACE}/{secret}" in run.error
    assert set(run.steps.values_list("status", flat=True)) == {"reverted"}
    run = services.revert_run(run_id=active.pk, holder="w")
    assert (run.status, run.residue) == (Status.REVERTED, [])
