"""Sessions under watch on a real practice cluster, which all tests of this file leave as it is."""

from __future__ import annotations

import threading
import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from faults import selectors as fault_selectors
from faults.models import FaultRun
from faults.packs import PackError
from faults.tests.conftest import standing, standing_fault  # noqa: F401 - fixtures
from sessions import presence, services
from sessions.models import InterviewSession
from sessions.observer import loop, screens, session_watch
from sessions.observer.cluster import PANEL_KINDS, ClusterWatch
from sessions.observer.cluster_sessions import ClusterSessions
from sessions.tests.conftest import eventually

POD, EVENT = ("v1", "Pod"), ("v1", "Event")


@pytest.fixture
def scenario_version(standing_fault, db):  # noqa: F811
    """The scenario whose fault is there."""
    return standing_fault.scenario_version


@pytest.fixture
def broken(draft, ada, standing, standing_fault, practice):  # noqa: F811
    """A live session whose fault is really there."""
    row = draft.scenarios.get()
    row.run = FaultRun.objects.get(pk=standing_fault.pk)
    row.save()
    found = {"cluster": standing.cluster, "environment": standing, "state": InterviewSession.State.READY}
    InterviewSession.objects.filter(pk=draft.pk).update(**found)
    return services.start(session=InterviewSession.objects.get(pk=draft.pk), actor=ada)


def test_changes_of_the_cluster_wake_the_checks_only_where_they_read_and_somebody_is_judged(watched, broken, time):
    watched.look()
    ours = broken.environment.namespaces["workloads"]
    watched._has_changed.clear()
    watched._changed(EVENT, ours)
    assert not watched._has_changed.is_set()
    assert watched.marked[-1] == (broken.pk, frozenset({"events"}))
    watched._changed(POD, ours)
    assert watched._has_changed.is_set()
    InterviewSession.objects.filter(pk=broken.pk).update(state="ready")
    watched.look()
    watched._has_changed.clear()
    watched._changed(POD, ours)
    assert not watched._has_changed.is_set()
    time.advance(session_watch.PROBE.total_seconds())
    watched.look()
    assert watched.marked[-1] == (broken.pk, screens.CLUSTER_PANELS)


def test_a_cluster_is_followed_once_its_session_is_prepared(observer, broken, monkeypatch):
    monkeypatch.setattr(ClusterSessions, "_look", lambda self: None)  # one thread writes to the test's database
    active = observer("first")
    InterviewSession.objects.filter(pk=broken.pk).update(state="preparing")
    active.tick()
    assert (active._watches, active._clusters) == ({}, {})
    assert active._is_busy  # so that it looks again soon
    InterviewSession.objects.filter(pk=broken.pk).update(state="ready")
    active._follow()
    assert list(active._watches) == [broken.pk]
    with CaptureQueriesContext(connection) as asked:
        active._follow()
    assert not [query for query in asked.captured_queries if "kubeconfig" in query["sql"]]
    active._stand_down()


@pytest.fixture
def ready_beside_another(broken):
    """A session that is ready, while another one is being prepared."""
    InterviewSession.objects.filter(pk=broken.pk).update(state="ready")
    other = InterviewSession.objects.get(pk=broken.pk)
    other.pk, other.uuid, other.join_token_hash = None, uuid.uuid4(), ""
    other.environment, other.cluster, other.state = None, None, "preparing"
    other.save()
    return broken


def test_a_ready_session_that_nobody_sees_waits_a_moment_for_those_that_are_prepared(
    observer, ready_beside_another, time, monkeypatch
):
    monkeypatch.setattr(ClusterSessions, "_look", lambda self: None)  # one thread writes to the test's database
    active = observer("first")
    active.tick()
    assert active._watches == {}
    time.advance(loop.MAX_WAIT.total_seconds())
    active._follow()
    assert list(active._watches) == [ready_beside_another.pk]
    active._stand_down()


@pytest.mark.parametrize("reason", ["somebody is there", "it begins", "nothing else is prepared", "Redis is away"])
def test_a_ready_session_is_followed_at_once_where_that_matters(
    observer, ready_beside_another, time, monkeypatch, reason
):
    monkeypatch.setattr(ClusterSessions, "_look", lambda self: None)  # one thread writes to the test's database
    active, session = observer("first"), ready_beside_another
    active.tick()
    assert active._watches == {}
    if reason == "somebody is there":
        presence.seen(str(session.uuid), session.owner_id, "page", time())
    elif reason == "it begins":
        InterviewSession.objects.filter(pk=session.pk).update(state="live")
    elif reason == "nothing else is prepared":
        InterviewSession.objects.exclude(pk=session.pk).update(state="ready")
    else:
        monkeypatch.setattr(presence, "of_many", lambda uuids, now: None)
    active._follow()
    assert list(active._watches) == [session.pk]
    active._stand_down()


def test_a_change_in_another_sessions_namespace_shows_in_nothing_but_the_nodes(watched, broken):
    watched.look()
    watched._has_changed.clear()
    watched._changed(POD, "of-another-session")
    assert watched.marked[-1] == (broken.pk, frozenset({"nodes"}))
    watched._changed(EVENT, "of-another-session")
    assert watched.marked[-1] == (broken.pk, frozenset())
    assert not watched._has_changed.is_set()


def test_sessions_of_one_cluster_share_its_watch_and_its_thread(observer, broken, monkeypatch):
    """A hundred sessions on a shared cluster cost its API server one list and watch of each kind."""
    monkeypatch.setattr(ClusterSessions, "_look", lambda self: None)  # one thread writes to the test's database
    active = observer("first")
    other = InterviewSession.objects.get(pk=broken.pk)
    other.pk, other.uuid, other.join_token_hash, other.environment = None, uuid.uuid4(), "", None
    other.save()
    active.tick()
    first, second = active._watches[broken.pk], active._watches[other.pk]
    assert first.cluster is second.cluster
    assert len(active._clusters) == 1
    assert sum(thread.name.startswith("checks") for thread in threading.enumerate()) == 1
    eventually(lambda: first.cluster.cache.complete)
    assert len(first.cluster._tasks) == len(first.cluster.kinds)
    InterviewSession.objects.filter(pk=other.pk).update(released_at=broken.created_at)
    active._follow()
    assert list(active._watches) == [broken.pk]
    assert first.cluster.is_alive
    InterviewSession.objects.filter(pk=broken.pk).update(released_at=broken.created_at)
    active._follow()
    assert active._clusters == {}
    assert not first.cluster.is_alive


def test_a_session_whose_scenario_cannot_be_read_begins_no_watch(observer, broken, monkeypatch, caplog):
    def unreadable(run):
        raise PackError("arm-image", "scenario.yaml", "was changed by hand")

    monkeypatch.setattr(session_watch.fault_selectors, "bound_pack", unreadable)
    active = observer("first")
    active.tick()
    assert "cannot be watched yet" in caplog.text
    assert (active._watches, active._clusters) == ({}, {})


def test_a_kind_that_a_new_scenario_reads_is_watched_from_then_on(watched):
    watched.cluster.include([("v1", "ConfigMap")])
    eventually(lambda: watched.cluster.cache.complete and watched.cluster.cache.objects(("v1", "ConfigMap")))
    assert not watched.must_be_renewed


def test_a_watch_whose_stream_ended_asks_to_be_made_anew(watched):
    assert not watched.must_be_renewed
    watched.cluster._watches[0].close()
    eventually(lambda: watched.must_be_renewed)


def test_watching_another_cluster_takes_no_thread(watched, broken, time):
    before = set(threading.enumerate())
    second = ClusterWatch(fault_selectors.kube_for(broken.cluster), [("v1", "ConfigMap")], time)
    second.start()
    eventually(lambda: second.cache.complete)
    assert set(threading.enumerate()) == before
    assert len(second.kinds) == len(PANEL_KINDS) + 1
    second.close()
    assert not second.is_alive
