"""Parts that start during the interview: asked for once, shown when proven, tried again, skipped, never left over."""

from __future__ import annotations

import pytest

from faults.models import Cluster, FaultRun, Outbox
from sessions import clock, panels, services
from sessions.errors import SessionError
from sessions.live import LiveState
from sessions.models import InterviewSession
from sessions.panels import scoring
from sessions.scorecards import build_scorecard
from sessions.services import phases as phase_services
from sessions.services import preparation, staging
from sessions.tests.conftest import SLUG

HTMX = {"HX-Request": "true"}


@pytest.fixture
def compose(time, ada, grace, scenario_version, question_version):
    """Make a live session: ten minutes of questions, then the scenario, which starts in this way."""

    def go(start="button"):
        asked = {"title": "Talk", "minutes": 10, "scenarios": [], "questions": [str(question_version.question.uuid)]}
        broken = {"title": "Repair", "minutes": 30, "scenarios": [SLUG], "questions": [], "injection": start}
        session = services.create_session(
            owner=ada, candidate_name="Sam Doe", outline=[asked, broken], interviewers=[grace]
        )
        services.prepare(session=session, actor=ada)
        cluster = Cluster.objects.create(name="gpu-test", tier=Cluster.Tier.PRACTICE)
        environment = FaultRun.objects.create(
            purpose=FaultRun.Purpose.ENVIRONMENT, cluster=cluster, status=FaultRun.Status.ACTIVE
        )
        session.phases.update(status="done")
        rows = InterviewSession.objects.filter(pk=session.pk)
        rows.update(cluster=cluster, environment=environment, state="ready")
        return services.start(session=session, actor=ada)

    return go


@pytest.fixture
def staged(compose):
    return compose()


@pytest.fixture
def start(ada):
    return lambda session, actor=None: services.start_part(session=session, number=1, actor=actor or ada)


def prove(session):
    """Leave the part's scenario as its phases do: injected, and its symptom seen."""
    row = session.scenarios.get()
    row.run = row.run or preparation.plan_run(session, row)
    FaultRun.objects.filter(pk=row.run.pk).update(
        status=FaultRun.Status.ACTIVE, injected_at=clock.now(), symptom_at=clock.now()
    )
    row.save()
    session.phases.filter(key__contains=SLUG).update(status="done")
    services.run_parts(session_id=session.pk)


def fail(session, key="symptom", error="The symptom did not show within 60 s: no pod of the job yet"):
    session.phases.filter(key=f"{key}:{SLUG}").update(status="failed", error=error)


def drawn(session, name, role=panels.INTERVIEWER):
    return panels.render(InterviewSession.objects.get(pk=session.pk), name, role, LiveState(synced_at=clock.now()))


def stage_of(session):
    return session.staged_parts.get()


def test_preparing_makes_the_environment_and_injects_nothing_of_it(staged):
    assert list(staged.phases.values_list("key", flat=True)) == ["cluster", "environment", "access"]
    assert staged.state == "live"
    assert staged.scenarios.get().run is None


def test_a_start_is_asked_for_once_whoever_presses_how_often(staged, start, ada, grace, jobs, kinds):
    for person in (ada, grace, ada):
        start(staged, person)
    assert [job for job, _ in jobs()].count("start_part") == 1
    assert kinds(staged).count("part.asked") == 1
    assert stage_of(staged).asked_by == ada
    assert staged.phases.filter(status="queued").count() == 2


def test_the_candidate_sees_nothing_of_it_before_it_is_proven(staged, start, time):
    for ask in (lambda: None, lambda: start(staged)):
        ask()
        assert "<article" not in drawn(staged, "statement", panels.CANDIDATE)
    time.advance(65)
    prove(staged)
    assert drawn(staged, "statement", panels.CANDIDATE).count("<article") == 1
    assert (stage_of(staged).began_ms, stage_of(staged).skipped_at) == (65_000, None)


def test_the_candidate_is_told_how_to_get_into_the_namespace_of_each_part(staged, start):
    words = "set-context --current --namespace=ml-training"
    start(staged)
    prove(staged)
    assert words not in drawn(staged, "statement", panels.CANDIDATE)
    FaultRun.objects.filter(purpose=FaultRun.Purpose.ENVIRONMENT).update(namespaces={"workloads": "elsewhere"})
    assert words in drawn(staged, "statement", panels.CANDIDATE)


def test_time_line_and_run_of_show_tell_when_it_began(staged, start, time, kinds):
    assert "starts by button" in drawn(staged, "run")
    start(staged)
    time.advance(125)
    prove(staged)
    event = staged.events.get(kind="part.began")
    assert (event.session_ms, event.payload["title"], event.payload["seconds"]) == (125_000, "Repair", 125.0)
    assert "Part began: Repair" in drawn(staged, "timeline")
    assert "2:05" in drawn(staged, "run")
    assert "<article" not in drawn(staged, "stages")


def test_checks_hints_and_ratings_begin_with_it(staged, start, ada, first_pack):
    row = staged.scenarios.get()
    rate = {"criterion": first_pack.rubric[0].key, "level": 3, "version": 0, "actor": ada}
    assert first_pack.checks[0].key not in drawn(staged, "checks")
    assert "Release to the candidate" not in drawn(staged, "hints")
    with pytest.raises(SessionError, match="has not begun"):
        services.release_hint(scenario=row, index=0, actor=ada)
    with pytest.raises(SessionError, match="has not begun"):
        services.save_rating(scenario=row, **rate)
    start(staged)
    prove(staged)
    row = staged.scenarios.get()
    assert f"{row.pk}:{first_pack.checks[0].key}" in drawn(staged, "checks")
    assert services.release_hint(scenario=row, index=0, actor=ada).session_ms == 0
    assert services.save_rating(scenario=row, **rate).level == 3


def test_a_pause_interrupts_the_start_and_the_clock_brings_it_back(staged, start, ada, jobs, time):
    start(staged)
    services.pause(session=staged, actor=ada)
    prove(staged)
    assert stage_of(staged).began_at is None
    Outbox.objects.all().delete()
    services.resume(session=staged, actor=ada)
    assert jobs() == [("start_part", [staged.pk])]
    services.run_parts(session_id=staged.pk)
    assert stage_of(staged).began_at == time.at


def test_it_starts_only_while_the_clock_runs(staged, start, ada):
    services.pause(session=staged, actor=ada)
    with pytest.raises(SessionError, match="must be live to start a part"):
        start(staged)


def test_no_part_starts_under_a_panic_stop(staged, start, ada):
    services.engage_panic(cluster=None, actor=ada)
    with pytest.raises(SessionError, match="engaged the panic stop"):
        start(staged)


def test_after_the_end_nothing_of_it_is_planned_any_more(staged, start, ada):
    start(staged)
    services.end(session=staged, actor=ada)
    services.run_parts(session_id=staged.pk)
    phase = staged.phases.get(key=f"inject:{SLUG}")
    with pytest.raises(staging.NotYet):
        staging.WORKERS["inject"](phase_services.Work(InterviewSession.objects.get(pk=staged.pk), phase, "late"))
    assert staged.scenarios.get().run is None
    assert stage_of(staged).began_at is None


def test_what_fails_is_told_with_what_can_be_done_and_the_interview_goes_on(staged, start, ada, kinds, jobs):
    start(staged)
    fail(staged)
    told = drawn(staged, "stages")
    assert "could not be set up" in told
    assert "no pod of the job yet" in told
    assert "Try again" in told
    assert "Skip this part" in told
    assert "“Repair” could not be set up" in drawn(staged, "notices")
    assert "Needs you" not in drawn(staged, "statement", panels.CANDIDATE)
    services.retry_part(session=staged, number=1, actor=ada)
    assert staged.phases.get(key=f"symptom:{SLUG}").status == "queued"
    assert jobs()[-1] == ("start_part", [staged.pk])
    assert "part.retried" in kinds(staged)
    prove(staged)
    assert stage_of(staged).began_at is not None


def test_a_skipped_part_takes_back_what_was_planned_and_never_begins(staged, start, ada, kinds):
    start(staged)
    row = staged.scenarios.get()
    run = preparation.plan_run(staged, row)
    fail(staged)
    services.skip_part(session=staged, number=1, actor=ada)
    services.skip_part(session=staged, number=1, actor=ada)
    assert set(staged.phases.exclude(status="done").values_list("key", flat=True)) == {f"undo:{SLUG}"}
    assert "taken back" in drawn(staged, "stages")
    services.run_parts(session_id=staged.pk)
    run.refresh_from_db()
    assert (run.status, kinds(staged).count("part.skipped"), kinds(staged).count("part.began")) == ("reverted", 1, 0)
    assert "<article" not in drawn(staged, "stages")
    assert "Skipped" in drawn(staged, "run")
    with pytest.raises(SessionError, match="was skipped"):
        start(staged)


def test_a_part_that_never_began_is_no_gap_in_the_assessment(staged, ada, first_pack):
    services.skip_part(session=staged, number=1, actor=ada)
    services.end(session=staged, actor=ada)
    session = InterviewSession.objects.get(pk=staged.pk)
    assert first_pack.rubric[0].title not in {row.title for row in scoring.review(session, ada)["unrated"]}
    scenario = build_scorecard(session=session, viewer=ada)["scenarios"][0]
    assert (scenario["timings"]["began"], scenario["timings"]["skipped"]["session_ms"]) == (None, 0)


def test_a_session_with_a_skipped_part_can_be_reopened(staged, start, ada):
    start(staged)
    preparation.plan_run(staged, staged.scenarios.get())
    services.skip_part(session=staged, number=1, actor=ada)
    services.run_parts(session_id=staged.pk)
    services.end(session=staged, actor=ada)
    assert services.reopen(session=staged, actor=ada).state == "live"


def test_a_part_that_has_begun_is_not_skipped(staged, start, ada):
    start(staged)
    prove(staged)
    with pytest.raises(SessionError, match="has begun"):
        services.skip_part(session=staged, number=1, actor=ada)


def test_it_starts_by_itself_when_the_minutes_of_the_part_before_are_over(compose, time, kinds):
    session = compose("automatic")
    assert staging.start_due_parts(time.advance(599)) == 0
    assert "Starts by itself at" in drawn(session, "stages")
    assert staging.start_due_parts(time.advance(1)) == 1
    assert staging.start_due_parts(time.advance(1)) == 0
    assert session.events.get(kind="part.asked").actor == "system"


def test_the_time_in_a_pause_does_not_count_for_it(compose, time, ada):
    session = compose("automatic")
    services.pause(session=session, actor=ada)
    time.advance(700)
    services.resume(session=session, actor=ada)
    assert staging.start_due_parts(time.advance(300)) == 0
    assert staging.start_due_parts(time.advance(300)) == 1


def test_an_interviewer_may_keep_it_from_starting_by_itself(compose, time, ada, start):
    session = compose("automatic")
    services.hold_part(session=session, number=1, actor=ada)
    assert staging.start_due_parts(time.advance(1200)) == 0
    assert "Starts by itself" not in drawn(session, "stages")
    assert start(session).asked_at == time.at


def test_a_job_that_died_is_published_again_until_the_part_has_begun(staged, start, jobs, time):
    start(staged)
    Outbox.objects.all().delete()
    services.housekeep(time.advance(1))
    assert jobs() == [("start_part", [staged.pk])]
    prove(staged)
    Outbox.objects.all().delete()
    assert services.housekeep(time.advance(60)) == 0


@pytest.fixture
def press(client):
    def go(session, action, number=1, user=None, **headers):
        if user is not None:
            client.force_login(user)
        return client.post(f"/sessions/{session.uuid}/parts/{number}/{action}/", headers=headers or HTMX)

    return go


def test_the_buttons_answer_with_the_panel(press, staged, ada):
    for action, words in (("start", "Setting up"), ("skip", ""), ("start", "was skipped")):
        response = press(staged, action, user=ada)
        assert words in response.content.decode()
    assert response.status_code == 409


def test_without_javascript_the_buttons_lead_back_to_the_page(press, staged, ada):
    response = press(staged, "start", user=ada, Accept="text/html")
    assert (response.status_code, stage_of(staged).asked_by) == (302, ada)


def test_the_buttons_are_not_for_others_and_there_are_no_others(press, client, staged, ada, mallory):
    assert press(staged, "start").status_code == 302
    assert press(staged, "start", user=mallory).status_code == 404
    for action, number in (("start", 0), ("start", 9), ("explode", 1)):
        assert press(staged, action, number, user=ada).status_code == 404
    assert client.get(f"/sessions/{staged.uuid}/parts/1/start/").status_code == 405
    assert stage_of(staged).asked_at is None
