"""Exercises without a fault in a session, and the milestones of all kinds: prepared, shown, ticked, exported."""

from __future__ import annotations

import pytest

from faults import services as fault_services
from faults.checks import Outcome
from faults.models import Cluster, FaultRun
from sessions import clock, panels, part_times, selectors, services
from sessions.errors import SessionError
from sessions.live import LiveState
from sessions.models import InterviewSession
from sessions.observer import checking
from sessions.scorecards import as_pdf, build_scorecard
from sessions.services import preparation

TASK, SPOKEN = "gpu-acceptance", "mpi-across-nodes"
HTMX = {"HX-Request": "true"}


@pytest.fixture
def catalogue(db):
    return {version.scenario.slug: version for version in fault_services.seed_catalog()}


@pytest.fixture
def compose(time, ada, catalogue):
    return lambda *slugs: services.create_session(
        owner=ada, candidate_name="Sam Doe", scenario_versions=[catalogue[slug] for slug in slugs]
    )


@pytest.fixture
def talk(compose, ada):
    """A live interview of one spoken exercise."""
    session = services.prepare(session=compose(SPOKEN), actor=ada)
    preparation.run_preparation(session_id=session.pk)
    return services.start(session=session, actor=ada)


@pytest.fixture
def validation(compose, ada):
    """A live interview of one task, in a cluster that nobody built."""
    session = services.prepare(session=compose(TASK), actor=ada)
    cluster = Cluster.objects.create(name="gpu-test", tier=Cluster.Tier.PRACTICE)
    environment = FaultRun.objects.create(
        purpose=FaultRun.Purpose.ENVIRONMENT, cluster=cluster, status=FaultRun.Status.ACTIVE
    )
    rows = InterviewSession.objects.filter(pk=session.pk)
    rows.update(cluster=cluster, environment=environment, state="ready")
    session.refresh_from_db()
    run = preparation.plan_run(session, session.scenarios.get())
    fault_services.inject_run(run_id=run.pk, holder="test")
    return services.start(session=session, actor=ada)


def drawn(session, name, role=panels.INTERVIEWER):
    return panels.render(InterviewSession.objects.get(pk=session.pk), name, role, LiveState(synced_at=clock.now()))


def test_a_spoken_exercise_needs_no_cluster_and_is_rated(talk, ada):
    row = talk.scenarios.get()
    assert (talk.state, talk.cluster, row.run, talk.phases.count()) == ("live", None, None, 0)
    assert "Let us talk about it" in drawn(talk, "statement", panels.CANDIDATE)
    assert "Spoken about" in drawn(talk, "run")
    assert "has checks" in drawn(talk, "checks")
    assert services.save_rating(scenario=row, criterion="explains-mpi", level=3, version=0, actor=ada).level == 3
    services.end(session=talk, actor=ada)
    card = build_scorecard(session=talk, viewer=ada)
    assert (card["scenarios"][0]["exercise"], card["scenarios"][0]["checks"]) == ("spoken", [])
    assert as_pdf(card).startswith(b"%PDF")


def test_a_task_injects_nothing_and_its_checks_count(validation, time, kinds):
    row = validation.scenarios.select_related("run", "scenario_version", "stage").get()
    assert [phase.key for phase in validation.phases.all()] == ["cluster", "environment", f"inject:{TASK}", "access"]
    assert (row.run.status, row.run.injected_at, row.run.steps.count()) == ("active", None, 0)
    assert "Task" in drawn(validation, "run")
    pack = selectors.pack_for(row)
    passing = {check.key: Outcome("pass", "as wanted") for check in (*pack.checks, *pack.guards)}
    for _ in range(2):
        checking.record(row, pack, passing, time.advance(5))
    row.refresh_from_db()
    assert (row.held_at, row.run.__class__.objects.get(pk=row.run_id).status) == (time.at, "resolved")
    assert set(row.milestones) == {"runs-everywhere", "shows-devices"}
    assert row.milestones["shows-devices"] == {"at": "2026-05-04T12:00:05+00:00", "session_ms": 5000, "by": ""}
    assert kinds(validation).count("milestone.reached") == 2


def test_a_task_that_is_reverted_leaves_nothing_to_do(validation):
    run = fault_services.revert_run(run_id=validation.scenarios.get().run_id, holder="test")
    assert (run.status, run.residue) == ("reverted", [])


def test_milestones_stand_beside_the_time_by_which_a_good_candidate_is_there(talk, time, ada):
    row = talk.scenarios.get()
    assert "par 03:00" in drawn(talk, "milestones")
    time.advance(200)
    assert "par was 03:00" in drawn(talk, "milestones")
    services.mark_milestone(scenario=row, key="names-the-gap", reached=True, actor=ada)
    services.mark_milestone(scenario=row, key="names-the-gap", reached=True, actor=ada)
    assert "at 03:20" in drawn(talk, "milestones")
    assert talk.events.filter(kind="milestone.reached").count() == 1
    services.end(session=talk, actor=ada)
    told = build_scorecard(session=talk, viewer=ada)["scenarios"][0]["milestones"]
    assert [(one["key"], one["by"], one["reached"] and one["reached"]["session_ms"]) for one in told] == [
        ("names-the-gap", "ada", 200_000),
        ("draws-the-start", "", None),
        ("weighs-it", "", None),
    ]


def test_a_tick_can_be_taken_back_but_no_check_can_be_ticked(talk, validation, ada):
    row = talk.scenarios.get()
    services.mark_milestone(scenario=row, key="names-the-gap", reached=True, actor=ada)
    services.mark_milestone(scenario=row, key="names-the-gap", reached=False, actor=ada)
    assert talk.scenarios.get().milestones == {}
    for other, key, words in (
        (row, "nothing", "has no milestone"),
        (validation.scenarios.get(), "shows-devices", "reached by its checks"),
    ):
        with pytest.raises(SessionError, match=words):
            services.mark_milestone(scenario=other, key=key, reached=True, actor=ada)
    services.end(session=talk, actor=ada)
    with pytest.raises(SessionError, match="to tick milestones"):
        services.mark_milestone(scenario=row, key="names-the-gap", reached=True, actor=ada)


def test_the_candidate_sees_nothing_of_milestones(talk):
    assert "milestones" not in panels.names_for(panels.CANDIDATE)
    assert "par" not in drawn(talk, "statement", panels.CANDIDATE).split()


def test_a_tick_is_a_press_of_a_button(talk, client, ada, mallory):
    url = f"/sessions/{talk.uuid}/scenarios/{talk.scenarios.get().uuid}/milestones/"
    assert client.post(url, {"mark": "names-the-gap:1"}).status_code == 302
    client.force_login(mallory)
    assert client.post(url, {"mark": "names-the-gap:1"}).status_code == 404
    client.force_login(ada)
    assert client.get(url).status_code == 405
    assert 'aria-pressed="true"' in client.post(url, {"mark": "names-the-gap:1"}, headers=HTMX).content.decode()
    assert client.post(url, {"mark": "<b>:1"}, headers=HTMX).status_code == 422
    client.post(url, {"mark": "names-the-gap:0"})
    assert talk.scenarios.get().milestones == {}


def test_the_next_scenario_begins_when_the_one_before_held_or_its_minutes_are_over(compose, time, ada):
    session = compose(SPOKEN, TASK)
    first, second = session.scenarios.select_related("scenario_version")
    assert part_times.begins_ms(session, [first, second], ()) == {first.pk: 0, second.pk: 15 * 60_000}
    spans = part_times.spans(session, [first, second], ())
    assert (spans[0].begin_ms, spans[0].end_ms) == (0, 30 * 60_000)
