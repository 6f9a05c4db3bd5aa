"""A panic stop that meets a session while it is being prepared: nothing is stuck, and nothing is left."""

from __future__ import annotations

import pytest

from faults import practice as practice_clusters
from faults import services as fault_services
from sessions import jobs, services
from sessions.services import phases as phase_services


@pytest.fixture
def preparing(ada, scenario_version, practice, monkeypatch):
    """A session whose environment is made, and whose fault is about to be injected."""
    monkeypatch.setattr(phase_services, "HOLD_S", 60.0)
    session = services.create_session(owner=ada, candidate_name="Sam", scenario_versions=[scenario_version])
    session = services.prepare(session=session, actor=ada)
    inject = fault_services.inject_run

    def panic_first(*, run_id, **rest):
        run = inject(run_id=run_id, **rest)
        services.engage_panic(cluster=None, actor=ada)
        return run

    monkeypatch.setattr(fault_services, "inject_run", panic_first)
    jobs.prepare_session(session.pk)
    monkeypatch.setattr(fault_services, "inject_run", inject)
    session.refresh_from_db()
    return session


@pytest.mark.django_db(transaction=True)
def test_it_stops_says_why_and_can_be_called_off(preparing, ada):
    told = {phase.status: phase.error for phase in preparing.phases.all()}
    assert preparing.state == "preparing"
    assert "panic stop is engaged" in told["failed"]
    fault_services.revert_engaged()
    services.lift_panic(cluster=None, actor=ada)
    assert not practice_clusters.exists(preparing.cluster.name)

    services.retry_preparation(session=preparing, actor=ada)
    jobs.prepare_session(preparing.pk)
    assert "Call this session off and make a new one" in preparing.phases.get(status="failed").error

    services.end(session=preparing, actor=ada)
    services.release(session=preparing, actor=ada)
    jobs.release_session(preparing.pk)
    preparing.refresh_from_db()
    assert preparing.released_at is not None
    assert preparing.residue == []
