"""The observer: its lease, and a session under watch on a real practice cluster."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time as machine_time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import transaction

from faults import selectors as fault_selectors
from faults import services as fault_services
from faults.models import Lease
from faults.packs import PackError
from sessions import events, frames, nudges, presence, services
from sessions.models import CheckState, InterviewSession, StagedPart
from sessions.observer import loop, screens, session_watch
from sessions.observer.cluster import PANEL_KINDS, ClusterWatch
from sessions.observer.cluster_sessions import ClusterSessions
from sessions.observer.loop import Observer
from sessions.observer.screens import EVERY_PANEL
from sessions.observer.session_watch import SessionWatch

POD, EVENT = ("v1", "Pod"), ("v1", "Event")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def own_redis(settings, redis_url):
    """The real Redis."""
    settings.REDIS_URL = redis_url


def shown(session, name, role="interviewer"):
    """Return a panel as Redis keeps it, or None."""
    return frames.snapshot(str(session.uuid), role).panels.get(name)


def seq(session, role="interviewer"):
    return frames.snapshot(str(session.uuid), role).seq


@pytest.fixture
def observer(own_redis, time, monkeypatch):
    """Make observers whose threads do nothing by themselves; the test ticks them."""
    monkeypatch.setattr(loop.Sweeper, "start", lambda self: None)
    monkeypatch.setattr(loop.Sweeper, "close", lambda self: None)
    made = []

    def make(name):
        made.append(Observer(threading.Event(), time, holder=name))
        return made[-1]

    return make


def test_one_observer_is_active_and_the_other_takes_over_when_it_falls_silent(db, observer, time):
    first, second = observer("first"), observer("second")
    first.tick()
    second.tick()
    assert (first.is_active, second.is_active) == (True, False)
    time.advance(7)
    second.tick()
    first.tick()
    assert (first.is_active, second.is_active) == (False, True)


def test_an_observer_at_rest_keeps_its_lease_in_fewer_writes_and_never_too_late(db, observer, time):
    active = observer("first")
    active.tick()
    time.advance(loop.RENEW.total_seconds())
    active.tick()  # by now it knows that there is nothing to do
    granted = Lease.objects.get(name=loop.LEASE).until
    time.advance(loop.RENEW.total_seconds())
    active.tick()
    assert Lease.objects.get(name=loop.LEASE).until == granted
    time.advance((loop.RENEW_IDLE - loop.RENEW).total_seconds())
    active.tick()
    assert Lease.objects.get(name=loop.LEASE).until == granted + loop.RENEW_IDLE
    assert loop.RENEW_IDLE.total_seconds() <= loop.LEASE_S / 2


def test_an_observer_that_stops_gives_its_lease_back_at_once(db, observer):
    first, second = observer("first"), observer("second")
    first._stop.set()
    first.tick()
    first.run()
    second.tick()
    assert second.is_active
    assert Lease.objects.get(name=loop.LEASE).holder == "second"


def test_a_change_of_the_time_line_reaches_the_page_with_the_next_look(observer, live, ada, time):
    active = observer("first")
    active.tick()
    active.screens.flush()
    services.add_note(session=live, text="Knows describe", actor=ada)
    time.advance(loop.FOLLOW_IDLE.total_seconds())
    active.tick()
    machine_time.sleep(screens.MIN_PAUSE_S)
    active.screens.flush()
    assert "Note taken" in shown(live, "timeline")
    before = seq(live)
    time.advance(loop.FOLLOW_IDLE.total_seconds())
    active.tick()
    machine_time.sleep(screens.MIN_PAUSE_S)
    active.screens.flush()
    assert seq(live) == before


def test_an_observer_without_sessions_asks_little(observer, db, time, django_assert_max_num_queries):
    active, standby = observer("first"), observer("second")
    active.tick()
    standby.tick()
    with django_assert_max_num_queries(30):
        for _ in range(20):  # ten seconds in which nobody says anything
            time.advance(0.5)
            active.tick()
    assert active._pause_s() >= 0.5
    standby.tick()
    assert standby._pause_s() >= 0.5


def test_a_word_about_a_change_makes_the_observer_look_at_once(observer, live, ada, time):
    active = observer("first")
    active.tick()
    services.add_note(session=live, text="Knows describe", actor=ada)
    active._hear()
    active.tick()
    assert active.screens.flush() == 2
    assert "Note taken" in shown(live, "timeline")


def test_many_words_within_a_tenth_of_a_second_cost_two_looks(observer, live, time, monkeypatch):
    active, looks = observer("first"), []
    active.tick()
    monkeypatch.setattr(active, "_poll_events", lambda: looks.append(time()))
    time.advance(0.5)
    first = time()
    for _ in range(20):
        active._hear()
        active.tick()
    assert looks == [first]
    time.advance(active._pause_s())
    active.tick()
    assert looks == [first, first + loop.NEWS]
    assert active._pause_s() > loop.NEWS.total_seconds()


def test_an_event_of_a_phase_draws_what_shows_phases_and_every_other_draws_all(observer, draft, ada):
    services.prepare(session=draft, actor=ada)
    active, marked = observer("first"), {}
    active.tick()
    active.screens.mark = lambda pk, names=EVERY_PANEL: marked.setdefault(pk, set()).update(names)
    began, over = {"status": "running"}, {"status": "done"}
    for kind, payload, shown_on in (
        ("phase.changed", began, loop.IN_PROGRESS_PANELS),
        ("phase.changed", over, loop.PHASE_OVER_PANELS),
        ("candidate.joined", {}, EVERY_PANEL),
    ):
        marked.clear()
        with transaction.atomic():
            events.append(draft, kind, payload=payload)
        active._poll_events()
        assert marked == {draft.pk: set(shown_on)}


def test_phases_are_drawn_again_where_their_progress_shows_or_their_next_try_comes_nearer(observer, draft, ada, time):
    services.prepare(session=draft, actor=ada)
    active, marked = observer("first"), []
    active.tick()
    active.screens.mark = lambda pk, names=EVERY_PANEL: marked.append((pk, frozenset(names)))

    def look():
        marked.clear()
        time.advance(loop.FOLLOW.total_seconds())
        active.tick()
        return marked

    progress = (draft.pk, frozenset(loop.IN_PROGRESS_PANELS))
    assert look() == []
    phase = draft.phases.filter(key="environment")
    phase.update(detail="Creating Namespace ml-training")
    assert look() == [progress]
    assert look() == []
    phase.update(status="waiting", next_try_at=time() + timedelta(seconds=20))
    assert look() == [progress]
    assert look() == [progress]


def test_what_a_service_changes_is_told_to_the_observer(own_redis, live, ada, django_capture_on_commit_callbacks):
    heard = threading.Event()
    listener = nudges.Listener(heard.set)
    listener.start()
    end = machine_time.monotonic() + 60
    while not heard.is_set():  # the listener may not have subscribed yet
        assert machine_time.monotonic() < end
        with django_capture_on_commit_callbacks(execute=True):
            services.add_note(session=live, text="Knows describe", actor=ada)
        heard.wait(0.05)
    listener.close()


def test_a_session_whose_cluster_has_no_kubeconfig_yet_is_left_alone(observer, live, caplog):
    active = observer("first")
    active.tick()
    assert "cannot be watched yet" in caplog.text
    assert active._watches == {}


# A session under watch, on a real practice cluster.


@pytest.fixture
def broken(draft, ada, practice, first_pack, monkeypatch):
    """A live session whose fault is really there."""
    deadline = datetime.now(UTC) + timedelta(hours=1)
    name = f"o-{uuid.uuid4().hex[:10]}"
    cluster = fault_services.ensure_practice_cluster(name=name, deadline=deadline, packs=[first_pack])
    names = {"workloads": "ml-training"}
    environment = fault_services.plan_environment_run(
        cluster=cluster, namespaces=names, deadline=deadline, packs=[first_pack]
    )
    fault_services.inject_run(run_id=environment.pk, holder="test")
    row = draft.scenarios.select_related("scenario_version").get()
    row.run = fault_services.plan_fault_run(
        cluster=cluster,
        scenario_version=row.scenario_version,
        namespaces=names,
        parameters={},
        seed=0,
        deadline=deadline,
    )
    row.save()
    fault_services.inject_run(run_id=row.run.pk, holder="test")
    run = fault_services.confirm_symptom(run_id=row.run.pk, holder="test")
    assert run.status == "active", run.error
    environment.refresh_from_db()
    state = InterviewSession.State.READY
    InterviewSession.objects.filter(pk=draft.pk).update(cluster=cluster, environment=environment, state=state)
    yield services.start(session=InterviewSession.objects.get(pk=draft.pk), actor=ada)
    fault_services.release_cluster(cluster=cluster)


@pytest.fixture
def watched(broken, time, monkeypatch):
    """The session's watch; the test looks itself, so that one thread writes to its database."""
    kube = fault_selectors.kube_for(broken.cluster)
    marked = []
    cluster = ClusterWatch(kube, (), time)
    watch = SessionWatch(broken, cluster, lambda pk, names: marked.append((pk, frozenset(names))), time)
    watch.marked = marked
    watch.cluster.start()
    eventually(lambda: watch.cluster.cache.complete)
    yield watch
    watch.cluster.close()


def eventually(true, seconds=60.0):
    """Wait until something that another process does has happened."""
    end, gate = machine_time.monotonic() + seconds, threading.Event()
    while not true():
        assert machine_time.monotonic() < end, "it did not happen in time"
        gate.wait(0.05)


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


def test_a_live_session_is_watched_judged_and_resolved(watched, broken, time, ada):
    stage = StagedPart.objects.create(session=broken, number=0, start="button")
    broken.scenarios.update(stage=stage)
    watched.look()
    assert not CheckState.objects.exists(), "its part has not begun"
    broken.staged_parts.update(began_at=time())
    watched.look()
    verdicts = dict(CheckState.objects.values_list("key", "verdict"))
    assert verdicts["job-complete"] == "fail"
    assert verdicts["neighbour-serves"] == verdicts["nodes-untouched"] == "pass"

    state = watched.live_state()
    job = broken.scenarios.get().run.parameters["job"]
    crashing = next(row for row in state.pods if row.name.startswith(job))
    assert (crashing.ready, crashing.intended, crashing.gpus) == ("0/1", True, 1)
    assert not any(row.intended for row in state.pods if row.name.startswith("embedding-api"))
    assert {row.namespace for row in state.pods} == {"ml-training"}
    assert any(row.reason == "BackOff" for row in state.events)
    assert {(row.arch, row.gpus) for row in state.nodes} == {("amd64", 8), ("amd64", 0)}
    assert sum(row.gpus_used for row in state.nodes) == 1
    assert state.synced_at is not None

    solution = fault_selectors.bound_pack(broken.scenarios.get().run).solutions[0]
    access = services.candidate_credentials(session=broken)
    fault_services.apply_solution(run=broken.scenarios.get().run, solution=solution, kubeconfig=access.kubeconfig)

    def resolved():
        time.advance(5)
        watched.look()
        return broken.scenarios.get().held_at is not None

    eventually(resolved)
    broken.refresh_from_db()
    assert broken.scenarios.get().run.status == "resolved"
    assert (broken.pk, screens.CLUSTER_PANELS) in watched.marked


def test_a_cluster_that_died_is_an_error_of_ours_and_not_a_fail(watched, broken, practice, time):
    watched.look()
    fault_services.release_cluster(cluster=broken.cluster)
    time.advance(session_watch.PROBE.total_seconds())
    watched.look()
    assert set(CheckState.objects.exclude(verdict="not_run").values_list("verdict", flat=True)) == {"error"}
    assert watched.live_state().stale_since is not None


@pytest.mark.parametrize("withdrawn", ["environment", "scenario", "panic"])
def test_what_we_take_back_while_an_interview_runs_is_no_verdict(watched, broken, time, withdrawn):
    """A panic stop reverts the runs of a live interview, and a practice cluster is dropped then."""
    watched.look()
    verdicts = dict(CheckState.objects.values_list("key", "verdict"))
    if withdrawn == "panic":
        services.engage_panic(cluster=None, actor="root")
    else:
        run = broken.environment if withdrawn == "environment" else broken.scenarios.get().run
        type(run).objects.filter(pk=run.pk).update(status="reverting")
    fault_services.release_cluster(cluster=broken.cluster)
    for _ in range(3):
        time.advance(session_watch.PROBE.total_seconds())
        watched.look()
    assert dict(CheckState.objects.values_list("key", "verdict")) == verdicts
    assert broken.outages.exists() == (withdrawn == "scenario"), "silence of what we dropped is no outage"


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


def test_the_observer_process_ends_in_good_order_on_sigterm(tmp_path, redis_url):
    env = {"DATA_DIR": str(tmp_path), "REDIS_URL": redis_url, "PATH": "/usr/bin:/bin"}
    manage = [sys.executable, str(ROOT / "manage.py")]
    subprocess.run([*manage, "migrate", "-v0"], env=env, check=True, timeout=60)
    process = subprocess.Popen([*manage, "observe"], env=env, stderr=subprocess.PIPE, text=True)
    try:
        assert "This observer is active" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
