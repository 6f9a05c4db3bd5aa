"""The reconciler, the janitor and the panic button: nothing outlives its deadline, whoever is dead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command

from faults import crypto, janitor, journal, practice, reconciler, services
from faults.engine import compare, fingerprint
from faults.errors import Forbidden, NotFound
from faults.kube.client import Kube
from faults.kube.mirror import NAMESPACE, stored
from faults.models import FaultRun

pytestmark = pytest.mark.django_db
Status = FaultRun.Status
HOME = "ml-training"


def later(seconds):
    return datetime.now(UTC) + timedelta(seconds=seconds)


@pytest.fixture
def active(fault):
    services.inject_run(run_id=fault.pk, holder="w")
    return services.confirm_symptom(run_id=fault.pk, holder="w", timeout_s=30)


def status_of(run):
    return FaultRun.objects.get(pk=run.pk).status


def test_it_leaves_alone_what_is_in_time(active, environment):
    assert reconciler.tick(later(60)) == 0
    assert status_of(active) == Status.ACTIVE


def test_it_reverts_what_is_overdue_the_fault_before_its_environment(active, environment):
    assert reconciler.tick(later(3601)) == 2
    active.refresh_from_db()
    environment.refresh_from_db()
    assert (active.status, active.residue) == (Status.REVERTED, [])
    assert (environment.status, environment.residue) == (Status.REVERTED, [])
    assert reconciler.tick(later(3601)) == 0


def test_a_quarantined_run_waits_for_a_person(active):
    FaultRun.objects.filter(pk=active.pk).update(status=Status.QUARANTINED, deadline=later(-1))
    assert reconciler.tick(later(0)) == 0


def test_a_cluster_that_has_dropped_itself_takes_its_faults_along(active, environment):
    practice.drop(environment.cluster.name)
    assert reconciler.tick(later(3601)) == 2
    assert status_of(active) == Status.REVERTED


def test_a_host_that_does_not_answer_is_asked_again_later(active, settings, caplog):
    url, settings.KUBESIM_URL = settings.KUBESIM_URL, "https://127.0.0.1:9"
    assert reconciler.tick(later(3601)) == 0
    assert "Run: make run" in caplog.text
    settings.KUBESIM_URL = url
    assert reconciler.tick(later(3601)) == 2


def test_a_moved_deadline_reaches_the_copy_in_the_cluster(active, environment, kube):
    moved = later(7200)
    FaultRun.objects.update(deadline=moved)
    assert reconciler.tick(later(0)) == 2
    assert [mirror.deadline for mirror in stored(kube)] == [moved, moved]
    assert reconciler.tick(later(0)) == 0


@pytest.mark.parametrize("status", [Status.RESOLVED, Status.INJECTING, Status.FAILED])
def test_whatever_state_a_run_is_in_its_cluster_learns_its_deadline(active, kube, status):
    moved = later(7200)
    FaultRun.objects.filter(pk=active.pk).update(deadline=moved, status=status)
    assert reconciler.tick(later(0)) == 1
    assert moved in [mirror.deadline for mirror in stored(kube)]


def test_a_moved_deadline_waits_for_nobody_and_keeps_nobody_waiting(active, kube):
    moved, epoch = later(7200), journal.take(active.pk, "busy", later(0))
    FaultRun.objects.filter(pk=active.pk).update(deadline=moved)
    assert reconciler.tick(later(0)) == 1
    assert moved in [mirror.deadline for mirror in stored(kube)]
    journal.DatabaseJournal(active.pk, epoch, lambda: later(0)).guard()  # the worker has not been overtaken


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
    assert said[-1] == f"Taking back Namespace {HOME}"
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


def test_after_the_janitor_the_database_still_finds_its_way(active, environment, kube):
    _hold(kube, ["test/hold"])
    janitor.sweep(kube, later(3601), say=lambda line: None)
    with pytest.raises(Forbidden, match="it is being terminated") as caught:
        services.revert_run(run_id=active.pk, holder="w")
    assert caught.value.retryable  # no person is needed, and nothing is given up
    _hold(kube, [])
    _until_gone(kube)
    run = services.revert_run(run_id=active.pk, holder="w")
    assert (run.status, run.residue) == (Status.REVERTED, [])
    run = services.revert_run(run_id=environment.pk, holder="w")
    assert (run.status, run.residue) == (Status.REVERTED, [])


def test_the_janitor_can_be_run_by_hand(active, environment, kubeconfig, capsys):
    assert janitor.main(["--kubeconfig", str(kubeconfig)]) == 0
    kubeconfig.write_text("users: [{name: u, user: {exec: {command: id}}}]")
    assert janitor.main(["--kubeconfig", str(kubeconfig)]) == 2
    assert capsys.readouterr().err.strip()


def test_the_panic_button_needs_no_redis_and_no_worker(active, environment, settings, capsys):
    settings.RQ_QUEUES = {}
    call_command("revert", "--all")
    assert capsys.readouterr().out.count("reverted, 0 left over") == 2
    assert status_of(environment) == Status.REVERTED


def test_the_panic_button_reports_what_it_could_not_revert(active, settings, capsys):
    url, settings.KUBESIM_URL = settings.KUBESIM_URL, "https://127.0.0.1:9"
    with pytest.raises(CommandError, match="1 of the runs"):
        call_command("revert", "--run", str(active.uuid))
    settings.KUBESIM_URL = url
    assert "cannot be reached" in capsys.readouterr().err


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


def test_one_run_can_be_chosen(active, environment):
    call_command("revert", "--run", str(active.uuid))
    assert status_of(active) == Status.REVERTED
    assert status_of(environment) == Status.ACTIVE
