"""Releases that cannot finish at once: a practice cluster is dropped, any other waits for a person and goes on."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faults import practice as practice_host
from faults import reconciler
from faults import selectors as fault_selectors
from faults.models import Cluster
from sessions import clock, jobs, services
from sessions.services import phases

NEVER = {"metadata": {"finalizers": ["example.com/never"]}}
COMMAND = """kubectl patch namespace ml-training --type=merge -p '{"metadata":{"finalizers":null}}'"""


@pytest.fixture
def ended(ada, scenario_version, practice, monkeypatch):
    """A session that has ended, whose namespace somebody other than its candidate keeps from going."""
    monkeypatch.setattr(phases, "HOLD_S", 60.0)
    session = services.create_session(owner=ada, candidate_name="Sam", scenario_versions=[scenario_version])
    services.prepare(session=session, actor=ada)
    jobs.prepare_session(session.pk)
    session.refresh_from_db()
    monkeypatch.setattr(phases, "HOLD_S", 0.1)
    kube = fault_selectors.kube_for(session.cluster)
    kube.patch("v1", "Namespace", "ml-training", "", NEVER)
    services.start(session=session, actor=ada)
    services.end(session=session, actor=ada)
    yield session
    practice_host.drop(session.cluster.name)


def release(session, rounds=40):
    """Do what observer and worker do, with every next try due at once."""
    services.release(session=session, actor=None)
    for _ in range(rounds):
        jobs.release_session(session.pk)
        session.phases.filter(next_try_at__isnull=False).update(next_try_at=clock.now())
        session.refresh_from_db()
        if session.released_at or session.phases.filter(key="drop", status="failed"):
            return


def test_a_practice_cluster_that_does_not_let_go_is_dropped_and_the_session_says_so(ended):
    services.release(session=ended, actor=None)
    ended.phases.filter(key="cut").update(started_at=clock.now() - timedelta(seconds=30), status="done")
    release(ended)
    assert (ended.release_outcome, ended.residue) == ("dropped", [])
    assert not practice_host.exists(ended.cluster.name)
    ended.environment.refresh_from_db()
    assert (ended.environment.status, ended.environment.dropped) == ("reverted", True)


def test_a_lent_cluster_is_kept_with_its_credentials_until_a_person_has_helped(ended):
    Cluster.objects.filter(pk=ended.cluster.pk).update(tier=Cluster.Tier.DEDICATED)
    type(ended).objects.filter(pk=ended.pk).update(tier=Cluster.Tier.DEDICATED)
    ended.refresh_from_db()
    kube = fault_selectors.kube_for(ended.cluster)
    services.release(session=ended, actor=None)
    jobs.release_session(ended.pk)
    environment = ended.environment
    type(environment).objects.filter(pk=environment.pk).update(settling_at=clock.now() - timedelta(seconds=90))
    release(ended)

    environment.refresh_from_db()
    assert environment.status == "quarantined"
    assert COMMAND in environment.manual_command.splitlines()  # pods may be ending meanwhile
    assert ended.released_at is None
    assert COMMAND in ended.phases.get(key="drop").error
    assert Cluster.objects.get(pk=ended.cluster.pk).kubeconfig

    kube.patch("v1", "Namespace", "ml-training", "", {"metadata": {"finalizers": None}})
    for seconds in (60, 120, 180):
        reconciler.tick(clock.now() + timedelta(seconds=seconds))
    ended.phases.filter(status="failed").update(next_try_at=clock.now())
    jobs.release_session(ended.pk)
    ended.refresh_from_db()
    assert (ended.release_outcome, ended.residue, ended.released_at is not None) == ("reverted", [], True)
    assert Cluster.objects.get(pk=ended.cluster.pk).kubeconfig == ""
