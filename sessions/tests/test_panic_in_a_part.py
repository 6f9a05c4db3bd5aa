"""A panic stop that meets a part while its faults are injected: all is taken back, and the part is skipped."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from faults import practice as practice_clusters
from faults import reconciler
from faults import selectors as fault_selectors
from faults import services as fault_services
from faults.engine import fingerprint
from faults.models import Cluster
from faults.services import running
from sessions import clock, services
from sessions.models import InterviewSession
from sessions.services import phases as phase_services
from sessions.tests.conftest import SLUG

NAMES = {"workloads": "ml-training"}
LONG = [pytest.param(place, marks=pytest.mark.torture) for place in ("before-write", "after-write")]


@pytest.fixture
def cluster(practice, db):
    """A cluster that stays, as a dedicated one does."""
    until = datetime.now(UTC) + timedelta(hours=1)
    made = fault_services.ensure_practice_cluster(name=f"p-{uuid.uuid4().hex[:8]}", deadline=until)
    Cluster.objects.filter(pk=made.pk).update(tier=Cluster.Tier.DEDICATED)
    yield Cluster.objects.get(pk=made.pk)
    practice_clusters.drop(made.name)


@pytest.fixture
def live(ada, scenario_version, cluster, monkeypatch):
    """A live interview whose only fault comes with a part that starts later."""
    monkeypatch.setattr(phase_services, "HOLD_S", 60.0)
    until = datetime.now(UTC) + timedelta(hours=1)
    run = fault_services.plan_environment_run(cluster=cluster, namespaces=NAMES, deadline=until)
    talk = {"title": "Talk", "minutes": 10, "scenarios": [], "questions": []}
    repair = {"title": "Repair", "minutes": 30, "scenarios": [SLUG], "questions": [], "injection": "button"}
    session = services.create_session(owner=ada, candidate_name="Sam Doe", outline=[talk, repair])
    services.prepare(session=session, actor=ada)
    environment = fault_services.inject_run(run_id=run.pk, holder="test")
    session.phases.update(status="done")
    rows = InterviewSession.objects.filter(pk=session.pk)
    rows.update(cluster=cluster, tier=Cluster.Tier.DEDICATED, environment=environment, state="ready")
    return services.start(session=session, actor=ada)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("place", ["before-picture", *LONG])
def test_nothing_is_left_of_a_part_that_a_panic_meets(live, cluster, ada, monkeypatch, place):
    before = live.environment.fingerprint_before
    inject, met = fault_services.inject_run, []

    def panic(name):
        if name == place and not met:
            met.append(name)
            services.engage_panic(cluster=cluster, actor=ada)
            assert {outcome.error for outcome in fault_services.revert_engaged()} == {""}

    look = running._picture_before
    monkeypatch.setattr(running, "_picture_before", lambda run: (panic("before-picture"), look(run))[1])
    monkeypatch.setattr(fault_services, "inject_run", partial(inject, failpoint=panic))
    services.start_part(session=live, number=1, actor=ada)
    services.run_parts(session_id=live.pk)
    assert met == [place]
    reconciler.tick(clock.now())  # of the observer
    run = live.scenarios.get().run
    assert (run.status, run.residue) == ("reverted", [])
    assert fingerprint(fault_selectors.kube_for(cluster), list(NAMES.values())) == before

    services.lift_panic(cluster=cluster, actor=ada)
    services.retry_part(session=live, number=1, actor=ada)
    services.run_parts(session_id=live.pk)
    assert "was taken back, by a panic stop" in live.phases.get(key=f"inject:{SLUG}").error
    services.skip_part(session=live, number=1, actor=ada)
    services.run_parts(session_id=live.pk)
    assert fingerprint(fault_selectors.kube_for(cluster), list(NAMES.values())) == before
    assert live.staged_parts.get().began_at is None
    services.end(session=live, actor=ada)
    services.release(session=live, actor=ada)
    services.run_release(session_id=live.pk)
    live.refresh_from_db()
    assert (live.released_at is not None, live.residue) == (True, [])
