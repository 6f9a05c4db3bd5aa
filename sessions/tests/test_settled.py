"""Verdicts of an earlier part stand, once a later one has put its faults into the same Terraform code."""

from __future__ import annotations

import pytest

from faults import packs
from faults.checks import Outcome
from faults.models import Cluster, FaultRun, Scenario, ScenarioVersion
from sessions import clock, panels, services
from sessions.live import LiveState
from sessions.models import CheckState, InterviewSession
from sessions.observer import checking
from sessions.scorecards import build_scorecard
from sessions.selectors import pack_for
from sessions.services import preparation
from sessions.tests.conftest import CATALOG

EARLY, TASK, LATE = "extend-tenancy", "tenant-workloads", "tenants-leak"


@pytest.fixture
def parts(ada, time):
    """A live session of three parts of the pairing exercise; the last two wait for the button."""
    for slug in (EARLY, TASK, LATE):
        files = dict(packs.load_folder(CATALOG / slug))
        pack, row = packs.parse(files), Scenario.objects.create(slug=slug)
        own = {"title": pack.title, "category": pack.category, "difficulty": pack.difficulty, "minutes": pack.minutes}
        ScenarioVersion.objects.create(scenario=row, number=1, digest=packs.digest(files), files=files, **own)
    outline = [
        {"title": slug, "minutes": 20, "scenarios": [slug], "questions": [], "injection": start}
        for slug, start in ((EARLY, ""), (TASK, "button"), (LATE, "button"))
    ]
    session = services.create_session(owner=ada, candidate_name="Sam", outline=outline, interviewers=[])
    services.prepare(session=session, actor=ada)
    cluster = Cluster.objects.create(name="gpu-test", tier=Cluster.Tier.PRACTICE)
    environment = FaultRun.objects.create(
        purpose=FaultRun.Purpose.ENVIRONMENT, cluster=cluster, status=FaultRun.Status.ACTIVE
    )
    session.phases.update(status="done")
    InterviewSession.objects.filter(pk=session.pk).update(cluster=cluster, environment=environment, state="ready")
    session.refresh_from_db()
    first = session.scenarios.get(position=0)
    first.run = preparation.plan_run(session, first, {})
    first.save()
    proven = {"injected_at": clock.now(), "symptom_at": clock.now()}
    FaultRun.objects.filter(pk=first.run.pk).update(status=FaultRun.Status.ACTIVE, **proven)
    return services.start(session=session, actor=ada)


def inject(session, position, status=FaultRun.Status.INJECTING):
    """Leave a part as its phases do when they begin to change the cluster."""
    row = session.scenarios.get(position=position)
    row.run = row.run or preparation.plan_run(session, row, {})
    row.save()
    row.stage.asked_at = row.stage.asked_at or clock.now()
    row.stage.save()
    FaultRun.objects.filter(pk=row.run.pk).update(status=status)


def look(session, verdict):
    """Write down that every check of the first part has this verdict."""
    row = session.scenarios.select_related("run").get(position=0)
    pack = pack_for(row)
    outcomes = {check.key: Outcome(verdict, "seen") for check in (*pack.checks, *pack.guards)}
    checking.record(row, pack, outcomes, clock.now())
    return {state.verdict for state in CheckState.objects.filter(scenario=row)}


def drawn(session, name):
    session = InterviewSession.objects.get(pk=session.pk)
    return panels.render(session, name, panels.INTERVIEWER, LiveState(synced_at=clock.now()))


def test_a_later_fault_in_the_same_code_undoes_no_earlier_repair(parts, time, kinds):
    look(parts, "pass")
    time.advance(30)
    look(parts, "pass")
    inject(parts, 2)
    for _ in range(3):
        time.advance(30)
        assert look(parts, "fail") == {"pass"}
    assert parts.scenarios.get(position=0).held_at is not None
    assert not {"scenario.regressed", "guard.changed"} & set(kinds(parts))


def test_what_was_not_repaired_by_then_stays_so(parts, time):
    look(parts, "fail")
    inject(parts, 2)
    time.advance(30)
    assert look(parts, "pass") == {"fail"}


def test_a_part_that_changes_no_code_settles_nothing(parts):
    inject(parts, 1)
    assert look(parts, "pass") == {"pass"}
    assert "Stands as it was" not in drawn(parts, "checks")


@pytest.mark.parametrize("status", [FaultRun.Status.PLANNED, FaultRun.Status.REVERTED])
def test_a_part_that_has_changed_nothing_or_was_taken_back_settles_nothing(parts, status):
    inject(parts, 2, status)
    assert look(parts, "pass") == {"pass"}


def test_the_button_says_what_the_start_settles_and_the_checks_that_it_was(parts):
    assert "It changes the same code: “One more tenant, and smaller shares” will stand as it is then." in " ".join(
        drawn(parts, "stages").split()
    )
    inject(parts, 2)
    assert "Stands as it was when “What a colleague has merged” began" in drawn(parts, "checks")


def test_the_scorecard_has_the_moment(parts, time, ada):
    time.advance(65)
    inject(parts, 2)
    first, second, third = build_scorecard(session=parts, viewer=ada)["scenarios"]
    assert first["timings"]["settled"]["session_ms"] == 65_000
    assert (second["timings"]["settled"], third["timings"]["settled"]) == (None, None)
