"""The observer: its lease, and a session under watch on a real practice cluster that it loses."""

from __future__ import annotations

import shutil
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
from sessions import events, frames, nudges, services
from sessions.models import CheckState, InterviewSession, StagedPart
from sessions.observer import loop, screens, session_watch
from sessions.observer.screens import EVERY_PANEL
from sessions.tests.conftest import eventually

ROOT = Path(__file__).resolve().parents[2]


def shown(session, name, role="interviewer"):
    """Return a panel as Redis keeps it, or None."""
    return frames.snapshot(str(session.uuid), role).panels.get(name)


def seq(session, role="interviewer"):
    return frames.snapshot(str(session.uuid), role).seq


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


# A session under watch, on a real practice cluster that the test changes.


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


def test_the_observer_process_ends_in_good_order_on_sigterm(tmp_path, redis_url, migrated):
    env = {"DATA_DIR": str(tmp_path), "REDIS_URL": redis_url, "PATH": "/usr/bin:/bin"}
    manage = [sys.executable, str(ROOT / "manage.py")]
    shutil.copy(migrated, tmp_path)
    process = subprocess.Popen([*manage, "observe"], env=env, stderr=subprocess.PIPE, text=True)
    try:
        assert "This observer is active" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
