"""The panic stop: everything is taken back at once, nothing is injected, and one dead cluster holds up nobody."""

from __future__ import annotations

import io
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from faults import crypto, reconciler, selectors
from faults import practice as practice_clusters
from faults import services as fault_services
from faults.errors import NotFound, PanicEngaged
from faults.kube.config import render
from faults.models import Cluster, FaultRun, Panic
from sessions import clock, services

NAMES = {"workloads": "ml-training"}


def deadline():
    return datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture
def made(practice, db):
    """Make a cluster with an active environment; every one is dropped at the end."""
    clusters = []

    def make(tier=Cluster.Tier.PRACTICE):
        cluster = fault_services.ensure_practice_cluster(name=f"p-{uuid.uuid4().hex[:8]}", deadline=deadline())
        clusters.append(cluster.name)
        Cluster.objects.filter(pk=cluster.pk).update(tier=tier)
        cluster.refresh_from_db()
        run = fault_services.plan_environment_run(cluster=cluster, namespaces=NAMES, deadline=deadline())
        return fault_services.inject_run(run_id=run.pk, holder="test")

    yield make
    for name in clusters:
        practice_clusters.drop(name)


def panic(*args):
    out, err = io.StringIO(), io.StringIO()
    call_command("panic", *args, stdout=out, stderr=err)
    return out.getvalue()


@pytest.mark.django_db(transaction=True)
def test_the_command_takes_everything_back_beside_a_cluster_that_is_dead(made):
    real, simulated = made(Cluster.Tier.DEDICATED), made()
    dead = made(Cluster.Tier.DEDICATED)
    kubeconfig = render(
        server="https://127.0.0.1:9", ca_pem=selectors.kube_for(dead.cluster).access.ca_pem, token="t",
        namespace="", user="u",
    )  # fmt: skip
    Cluster.objects.filter(pk=dead.cluster_id).update(kubeconfig=crypto.seal(kubeconfig))
    kube = selectors.kube_for(real.cluster)
    with pytest.raises(CommandError, match="1 of the runs"):
        panic()
    for run in (real, simulated):
        run.refresh_from_db()
        assert (run.status, run.residue) == (FaultRun.Status.REVERTED, [])
    with pytest.raises(NotFound):
        kube.get("v1", "Namespace", "ml-training")
    assert not practice_clusters.exists(simulated.cluster.name)
    dead.refresh_from_db()
    assert dead.status != FaultRun.Status.REVERTED


@pytest.mark.django_db(transaction=True)
def test_one_cluster_can_be_stopped_alone_and_nothing_is_injected_there_until_it_is_lifted(made):
    first, second = made(Cluster.Tier.DEDICATED), made()
    name = first.cluster.name
    panic("--cluster", name)
    second.refresh_from_db()
    assert second.status == FaultRun.Status.ACTIVE
    again = fault_services.plan_environment_run(cluster=first.cluster, namespaces=NAMES, deadline=deadline())
    with pytest.raises(PanicEngaged):
        fault_services.inject_run(run_id=again.pk, holder="test")
    again.refresh_from_db()
    assert (again.status, again.fingerprint_before) == (FaultRun.Status.PLANNED, None)
    panic("--cluster", name, "--lift")
    fault_services.inject_run(run_id=again.pk, holder="test")


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_holds_the_run_is_fenced_off(made):
    run = made(Cluster.Tier.DEDICATED)
    FaultRun.objects.filter(pk=run.pk).update(
        lease_holder="a worker that hangs", lease_until=datetime.now(UTC) + timedelta(hours=1)
    )
    panic()
    run.refresh_from_db()
    assert run.status == FaultRun.Status.REVERTED


@pytest.mark.django_db(transaction=True)
def test_the_observer_finishes_what_the_process_that_began_it_left(made):
    run = made(Cluster.Tier.DEDICATED)
    fault_services.engage_panic(by="ada")
    reconciler.tick(clock.now())
    run.refresh_from_db()
    assert (run.status, run.residue) == (FaultRun.Status.REVERTED, [])


def test_engaging_twice_is_one_panic_and_lifting_says_where_there_is_none(db):
    panic()
    panic()
    assert Panic.objects.count() == 1
    assert "Lifted for every cluster" in panic("--lift")
    with pytest.raises(CommandError, match="No panic is engaged"):
        panic("--lift")
    with pytest.raises(CommandError, match="no cluster 'nowhere'"):
        panic("--cluster", "nowhere")


def test_the_database_keeps_one_panic_for_every_cluster_and_one_for_each(db):
    lab = Cluster.objects.create(name="lab-1", tier=Cluster.Tier.DEDICATED)
    for cluster in (None, lab):
        Panic.objects.create(cluster=cluster, engaged_by="ada")
        with pytest.raises(IntegrityError), transaction.atomic():
            Panic.objects.create(cluster=cluster, engaged_by="grace")
    Panic.objects.update(lifted_at=clock.now())
    assert Panic.objects.create(engaged_by="ada").pk


def test_it_stands_in_the_time_line_of_the_sessions_that_it_meets(live, ada, kinds):
    services.engage_panic(cluster=None, actor=ada)
    services.lift_panic(cluster=None, actor=ada)
    assert kinds(live)[-2:] == ["panic.engaged", "panic.lifted"]
    assert live.events.order_by("seq").last().actor.endswith("ada")


def test_another_clusters_panic_is_not_ones_own(live, ada, kinds):
    other = Cluster.objects.create(name="elsewhere", tier=Cluster.Tier.DEDICATED)
    services.engage_panic(cluster=other, actor=ada)
    assert "panic.engaged" not in kinds(live)


def test_no_session_is_prepared_while_it_is_engaged(draft, ada):
    services.engage_panic(cluster=None, actor=ada)
    with pytest.raises(services.SessionError, match="ada engaged the panic stop"):
        services.prepare(session=draft, actor=ada)
    services.lift_panic(cluster=None, actor=ada)
    assert services.prepare(session=draft, actor=ada).state == "preparing"
    assert clock.now()
