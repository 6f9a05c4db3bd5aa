"""The doorman: a candidate is out within two seconds, whatever the queue is busy with."""

from __future__ import annotations

import threading

import pytest

from faults.errors import LeaseHeld
from faults.kube.client import Kube
from faults.kube.config import parse
from sessions import clock, jobs, services
from sessions.observer import doorman, sweeper
from sessions.observer.doorman import Doorman

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def running(ada, scenario_version, practice):
    """A session under way on a real practice cluster, and the candidate's client."""
    session = services.create_session(owner=ada, candidate_name="Sam", scenario_versions=[scenario_version])
    session = services.prepare(session=session, actor=ada)
    jobs.prepare_session(session.pk)
    session = services.start(session=session, actor=ada)
    kube = Kube(parse(services.candidate_credentials(session=session).kubeconfig))
    yield session, kube
    kube.close()
    services.end(session=session, actor=None)
    services.release(session=session, actor=None)
    jobs.release_session(session.pk)


def may_read(kube) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "ml-training"}},
    }
    return kube.create(review)["status"]["allowed"]


def test_it_cuts_off_and_lets_in_without_redis_and_without_a_worker(running, ada, kinds):
    session, kube = running
    door = Doorman()
    services.end(session=session, actor=ada)
    door.look()
    door.wait(10)
    assert not may_read(kube)

    services.reopen(session=session, actor=ada)
    door.look()
    door.wait(10)
    assert may_read(kube)
    assert [kind for kind in kinds(session) if kind.startswith("access.")] == ["access.revoked", "access.restored"]


def test_beside_the_job_it_records_one_change(running, ada, kinds):
    session, kube = running
    door = Doorman()
    services.end(session=session, actor=ada)
    door.look()
    jobs.end_session_access(session.pk)
    door.wait(10)
    assert not may_read(kube)
    assert kinds(session).count("access.revoked") == 1


def test_a_cluster_that_is_in_the_way_costs_a_look_and_no_more(ended, monkeypatch, caplog):
    def held(session_id):
        raise LeaseHeld("busy")

    monkeypatch.setattr(doorman.services, "sync_access", held)
    door = Doorman()
    door.look()
    door.wait(10)
    assert "busy" in caplog.text
    monkeypatch.undo()
    ended.environment = None
    ended.save()
    door.look()
    door.wait(10)
    assert services.unsettled() == []


def test_a_revert_that_hangs_keeps_no_job_waiting(db, monkeypatch):
    hangs, relayed = threading.Event(), threading.Event()
    monkeypatch.setattr(sweeper, "EVERY_S", 0.01)
    monkeypatch.setattr(sweeper.reconciler, "tick", lambda now, clock_set: hangs.wait(10))
    monkeypatch.setattr(sweeper.outbox, "sweep", lambda now: relayed.set())
    monkeypatch.setattr(sweeper.services, "housekeep", lambda now: 0)
    sweeping = sweeper.Sweeper(clock.now)
    sweeping.start()
    assert relayed.wait(30)
    relayed.clear()
    assert relayed.wait(30)
    hangs.set()
    sweeping.close()
