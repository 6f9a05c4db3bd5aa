"""Applies as the observer notices them: by the state in the cluster, which the candidate may write."""

from __future__ import annotations

import threading

import pytest

from faults import packs
from faults.errors import NotFound
from faults.kube.client import Kube
from faults.kube.config import Access
from faults.models import Cluster, FaultRun, Scenario, ScenarioVersion, Step
from faults.terraform_plans import UNSETTLED, PlannedChanges
from faults.terraform_state import secret_name
from faults.tests import workspace_packs
from sessions import events
from sessions.models import InterviewSession
from sessions.observer.cluster import ClusterWatch
from sessions.observer.remote_reads import INTERVAL, RemoteReads
from sessions.observer.session_watch import SessionWatch
from sessions.tests.test_applies import HOSTILE, secret

STATE = ("platform", secret_name("tenants"))
TOLD = "tenants: 0 added, 1 changed, 0 destroyed"


class Secrets(dict):
    """A cluster of Secrets alone, by namespace and name, and of plans."""

    planned = PlannedChanges(known=True, serial=3)

    def secret(self, namespace, name):
        if (namespace, name) not in self:
            raise NotFound("there is none")
        return self[namespace, name]

    def plan(self, namespace, root):
        assert (namespace, root) == ("platform", "tenants")
        return self.planned.dump()


@pytest.fixture
def scenario_version(db):
    """A scenario with Terraform code."""
    files = workspace_packs.files()
    pack = packs.parse(files)
    return ScenarioVersion.objects.create(
        scenario=Scenario.objects.create(slug=pack.slug),
        number=pack.version,
        digest=packs.digest(files),
        files=files,
        title=pack.title,
        category=pack.category,
        difficulty=pack.difficulty,
        minutes=pack.minutes,
    )


@pytest.fixture
def secrets():
    return Secrets({STATE: secret(3, {"a": 1})})


@pytest.fixture
def watch(live, secrets, time):
    """Return a maker of watches of the session, each as another observer begins one; nobody else is asked."""
    FaultRun.objects.filter(pk=live.scenarios.get().run_id).update(parameters={"gpus": "1"}, namespaces={})
    session = InterviewSession.objects.select_related("environment", "cluster").get(pk=live.pk)
    made = []

    def make():
        silent = Kube(Access("https://127.0.0.1:9", ""), pause=lambda seconds: None)
        cluster = ClusterWatch(silent, (), time)
        cluster.kube = silent  # which waits for nobody
        remote = RemoteReads("c", secrets, lambda promql: [], time, lambda: None)
        remote._answers.thread = remote._plans.thread = threading.current_thread()  # the test takes its turns
        marked = []
        found = SessionWatch(session, cluster, lambda pk, names: marked.append(set(names)), time, remote=remote)
        found.marked = marked
        made.append((cluster, remote))
        return found

    yield make
    for cluster, remote in made:
        remote.close()
        cluster.close()


@pytest.fixture
def notice(time):
    """Return a look of a watch, with fresh answers; it returns what was to be drawn."""

    def look(watch):
        time.advance(INTERVAL.total_seconds())
        watch._notice_applies()
        watch._remote.take_turn()
        watch.marked.clear()
        watch._notice_applies()
        return watch.marked

    return look


def told(session):
    """Return the text of each apply on the time line."""
    found = session.events.filter(kind=events.APPLIED).order_by("seq")
    return [event.payload["text"] for event in found]


def test_a_state_with_a_new_number_is_told_once_and_drawn(watch, notice, secrets, live):
    first = watch()
    assert notice(first) == []
    secrets[STATE] = secret(4, {"a": 2, "b": 1})
    assert notice(first) == [{"terraform", "timeline"}]
    assert notice(first) == []
    assert told(live) == ["tenants: 1 added, 1 changed, 0 destroyed (state 4)"]


def test_what_a_part_has_applied_as_it_began_is_not_told_as_the_candidates(watch, notice, secrets, live):
    run = FaultRun.objects.get(pk=live.scenarios.get().run_id)
    first = watch()
    notice(first)
    FaultRun.objects.filter(pk=run.pk).update(status=FaultRun.Status.INJECTING)
    first._refresh(InterviewSession.objects.select_related("environment", "cluster").get(pk=live.pk))
    secrets[STATE] = secret(4, {"a": 2}, lineage="one")
    assert notice(first) == []

    made = {"made": {"tenants": {"serial": 4, "lineage": "one"}}}
    Step.objects.create(run=run, index=90, kind="terraform", target={}, undo=made)
    FaultRun.objects.filter(pk=run.pk).update(status=FaultRun.Status.ACTIVE)
    first._refresh(InterviewSession.objects.select_related("environment", "cluster").get(pk=live.pk))
    secrets[STATE] = secret(5, {"a": 3}, lineage="one")
    notice(first)
    ours, theirs = live.events.filter(kind=events.APPLIED).order_by("seq")
    assert (ours.actor, ours.payload["text"]) == ("system", TOLD + " (state 4), as a part began")
    assert (theirs.actor, theirs.payload["text"]) == ("candidate", TOLD + " (state 5)")


def test_a_state_that_cannot_be_read_is_no_apply_and_stops_nobody(watch, notice, secrets, live):
    first = watch()
    notice(first)
    for name, found in HOSTILE.items():
        secrets[STATE] = found
        assert notice(first) == [], name
    secrets[STATE] = secret(4, {"a": 1, "b": 1})
    notice(first)
    assert told(live) == ["tenants: 1 added, 0 changed, 0 destroyed (state 4)"]


def test_who_deletes_the_state_and_begins_anew_is_told_of(watch, notice, secrets, live):
    first = watch()
    notice(first)
    del secrets[STATE]
    assert notice(first) == []
    secrets[STATE] = secret(1, {"a": 1}, lineage="another")
    notice(first)
    assert told(live) == ["tenants: 0 added, 0 changed, 0 destroyed (state 1)"]


def test_another_observer_tells_of_what_was_applied_in_between_and_repeats_nothing(watch, notice, secrets, live):
    first = watch()
    notice(first)
    secrets[STATE] = secret(4, {"a": 2})
    notice(first)
    assert notice(watch()) == []
    secrets[STATE] = secret(5, {"a": 3})
    assert notice(watch()) == [{"terraform", "timeline"}]
    assert told(live) == ["tenants: 0 added, 1 changed, 0 destroyed (state 4)", "tenants, state 5"]


def test_a_plan_that_says_something_new_is_told_and_drawn_and_one_of_a_moving_state_is_not(
    watch, secrets, live, time
):
    first = watch()

    def notice():
        first._remote.take_turn()
        first.marked.clear()
        first._notice_plans()
        time.advance(INTERVAL.total_seconds())
        return [*first.marked]

    first._notice_plans()
    assert [notice(), notice()] == [[{"plans"}], []]
    secrets.planned = PlannedChanges(error=UNSETTLED)
    assert notice() == []
    secrets.planned = PlannedChanges(known=True, serial=3, change=1, changes=("~ x",))
    assert notice() == [{"plans"}]
    found = live.events.filter(kind=events.PLANNED).order_by("seq")
    assert [event.payload["text"] for event in found] == ["no changes", "0 to add, 1 to change, 0 to destroy"]


def test_the_observers_look_has_it_among_its_duties_while_somebody_is_at_work(watch, secrets, live, time):
    Cluster.objects.update(tier=Cluster.Tier.DEDICATED)  # no host of practice clusters is asked for restarts
    first = watch()
    first.look()
    first._remote.take_turn()
    time.advance(INTERVAL.total_seconds())
    first.look()
    secrets[STATE] = secret(4, {"a": 1, "b": 1})
    time.advance(INTERVAL.total_seconds())
    first._remote.take_turn()
    first.look()
    assert told(live) == ["tenants: 1 added, 0 changed, 0 destroyed (state 4)"]
    assert live.events.filter(kind=events.PLANNED).count() == 1
