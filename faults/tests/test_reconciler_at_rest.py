"""The reconciler where nothing is to be reverted, or nothing can be: one fault, which all tests leave as it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command

from faults import journal, reconciler, selectors
from faults.kube.mirror import stored
from faults.models import FaultRun

pytestmark = pytest.mark.django_db
Status = FaultRun.Status


@pytest.fixture
def active(standing_fault, practice):
    return FaultRun.objects.get(pk=standing_fault.pk)


@pytest.fixture
def kube(active):
    return selectors.kube_for(active.cluster)


def later(seconds):
    return datetime.now(UTC) + timedelta(seconds=seconds)


def status_of(run):
    return FaultRun.objects.get(pk=run.pk).status


def test_it_leaves_alone_what_is_in_time(active):
    assert reconciler.tick(later(60)) == 0
    assert status_of(active) == Status.ACTIVE


def test_a_run_whose_cluster_is_away_keeps_its_command(active, settings):
    values = {"status": Status.QUARANTINED, "manual_command": "kubectl delete x", "error": "denied"}
    FaultRun.objects.filter(pk=active.pk).update(**values)
    url, settings.KUBESIM_URL = settings.KUBESIM_URL, "https://127.0.0.1:9"
    assert reconciler.tick(later(0)) == 0
    settings.KUBESIM_URL = url
    active.refresh_from_db()
    assert (active.status, active.manual_command, active.error) == (
        Status.QUARANTINED,
        "kubectl delete x",
        "denied",
    )


def test_a_moved_deadline_reaches_the_copy_in_the_cluster(active, kube):
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


def test_the_panic_button_reports_what_it_could_not_revert(active, settings, capsys):
    url, settings.KUBESIM_URL = settings.KUBESIM_URL, "https://127.0.0.1:9"
    with pytest.raises(CommandError, match="1 of the runs"):
        call_command("revert", "--run", str(active.uuid))
    settings.KUBESIM_URL = url
    assert "cannot be reached" in capsys.readouterr().err
