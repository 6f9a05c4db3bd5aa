"""The states of a session, from draft to scored."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faults.models import FaultRun, Outbox
from sessions import clock, selectors, services
from sessions.errors import SessionError
from sessions.models import InterviewSession, PlanVersion
from sessions.models.content import Plan

pytestmark = pytest.mark.usefixtures("time")


def test_a_draft_freezes_what_was_picked(draft, ada, grace, scenario_version, question_version):
    assert draft.state == "draft"
    assert draft.title == "Interview, 60 minutes"  # nothing of the scenario: the candidate reads it before the start
    assert [part["title"] for part in draft.parts] == ["Scenarios", "Questions"]
    assert [s.scenario_version for s in draft.scenarios.all()] == [scenario_version]
    assert [(q.part, q.question_version) for q in draft.questions.all()] == [(1, question_version)]
    assert {a.interviewer for a in draft.assessments.all()} == {ada, grace}


def test_a_plan_brings_its_parts_and_its_minutes(ada, scenario_version, question_version):
    parts = [
        {"title": "Repair", "minutes": 40, "scenarios": [scenario_version.scenario.slug], "questions": []},
        {"title": "Talk", "minutes": 20, "scenarios": [], "questions": [str(question_version.question.uuid)]},
    ]
    version = PlanVersion.objects.create(plan=Plan.objects.create(slug="demo"), number=1, title="Demo", parts=parts)
    version.scenarios.add(scenario_version)
    session = services.create_session(owner=ada, candidate_name="Sam", plan_version=version)

    assert (session.title, session.minutes, session.parts) == ("Demo", 60, parts)
    assert [s.part for s in session.scenarios.all()] == [0]
    assert [q.part for q in session.questions.all()] == [1]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"candidate_name": "  "}, "candidate_name", id="no-name"),
        pytest.param({"candidate_name": "x" * 121}, "candidate_name", id="long-name"),
        pytest.param({"scenario_versions": []}, "scenarios", id="nothing-picked"),
        pytest.param({"minutes": 4}, "minutes", id="too-short"),
        pytest.param({"minutes": 451}, "minutes", id="too-long"),
        pytest.param({"title": "x" * 201}, "title", id="long-title"),
    ],
)
def test_it_refuses_bad_input_at_its_field(ada, scenario_version, changes, field):
    good = {"owner": ada, "candidate_name": "Sam", "scenario_versions": [scenario_version]}
    with pytest.raises(SessionError) as caught:
        services.create_session(**{**good, **changes})
    assert caught.value.field == field
    assert not InterviewSession.objects.exists()


def test_it_refuses_a_start_in_the_past(ada, scenario_version, time):
    with pytest.raises(SessionError) as caught:
        services.create_session(
            owner=ada,
            candidate_name="Sam",
            scenario_versions=[scenario_version],
            scheduled_at=time.at - timedelta(hours=1),
        )
    assert caught.value.field == "scheduled_at"


def test_it_refuses_the_same_scenario_twice(ada, scenario_version):
    with pytest.raises(SessionError, match="twice"):
        services.create_session(owner=ada, candidate_name="Sam", scenario_versions=[scenario_version] * 2)


def test_preparing_publishes_one_job_however_often_it_is_asked(draft, ada, jobs):
    services.prepare(session=draft, actor=ada)
    session = services.prepare(session=draft, actor=ada)

    assert session.state == "preparing"
    assert jobs() == [("prepare_session", [draft.pk])]
    keys = [phase.key for phase in session.phases.all()]
    slug = "architecture-mismatch"
    assert keys == ["cluster", "environment", f"inject:{slug}", f"symptom:{slug}", "access"]


def test_a_change_that_fails_leaves_no_job_and_no_event(ended, ada, jobs, kinds):
    before = kinds(ended)
    with pytest.raises(SessionError, match=r"This session is ended; only a session that is live can do that\."):
        services.pause(session=ended, actor=ada)
    assert (jobs(), kinds(ended)) == ([], before)


def test_it_goes_from_start_to_end(ready, ada, jobs, kinds, time):
    services.start(session=ready, actor=ada)
    time.advance(60)
    services.pause(session=ready, actor=ada)
    services.resume(session=ready, actor=ada)
    session = services.end(session=ready, actor=ada)

    assert session.state == "ended"
    assert session.ended_at == time.at
    assert jobs() == [("end_session_access", [ready.pk])]
    assert kinds(session)[-4:] == ["session.started", "session.paused", "session.resumed", "session.ended"]


def test_a_double_click_changes_nothing(live, ada, kinds):
    before = kinds(live)
    services.start(session=live, actor=ada)
    services.resume(session=live, actor=ada)
    assert kinds(live) == before


def test_it_starts_only_while_the_symptom_stands(ready, ada):
    FaultRun.objects.filter(scenario_version__isnull=False).update(status="reverted")
    with pytest.raises(SessionError, match="the fault is reverted"):
        services.start(session=ready, actor=ada)
    assert InterviewSession.objects.get().state == "ready"


def test_it_does_not_start_unprepared(draft, ada):
    with pytest.raises(SessionError, match="is draft; it must be ready to start"):
        services.start(session=draft, actor=ada)


def test_it_can_be_called_off_before_it_started(ready, ada, jobs, kinds):
    session = services.end(session=ready, actor=ada)
    assert (session.state, kinds(session)[-1]) == ("ended", "session.called_off")
    assert jobs() == [("end_session_access", [session.pk])]
    with pytest.raises(SessionError, match="called off"):
        services.reopen(session=session, actor=ada)


def test_reopening_lets_the_clock_run_on(ended, ada, jobs, time):
    time.advance(300)
    session = services.reopen(session=ended, actor=ada)
    time.advance(10)

    assert session.state == "live"
    assert session.ended_at is None
    assert clock.elapsed_ms(session) == 10_000
    assert jobs() == [("restore_session_access", [session.pk])]


def test_it_cannot_be_reopened_once_the_release_was_asked(ended, ada):
    services.release(session=ended, actor=ada)
    with pytest.raises(SessionError, match="released"):
        services.reopen(session=ended, actor=ada)


def test_the_release_is_asked_once(ended, ada, jobs):
    services.release(session=ended, actor=ada)
    services.release(session=ended, actor=ada)
    assert jobs() == [("release_session", [ended.pk])]


def test_a_live_session_cannot_be_released(live, ada):
    with pytest.raises(SessionError, match="must be ended or scored to be released"):
        services.release(session=live, actor=ada)


def test_it_is_released_half_an_hour_after_its_end(ended, jobs, time):
    ended.access_revoked_at = time.at
    ended.save()
    assert services.housekeep(time.advance(1799)) == 0
    assert services.housekeep(time.advance(1)) == 1
    assert services.housekeep(time.at) == 0
    assert jobs() == [("release_session", [ended.pk])]


def test_a_job_that_died_is_published_again(draft, ada, jobs, time):
    services.prepare(session=draft, actor=ada)
    assert services.housekeep(time.at + timedelta(days=400)) == 0  # it waits for a worker
    Outbox.objects.update(taken_at=time.at)
    assert services.housekeep(time.at) == 0
    assert services.housekeep(time.at + timedelta(days=400)) == 1
    assert jobs() == [("prepare_session", [draft.pk])] * 2


def test_a_job_that_died_is_published_again_though_its_worker_stamped_it_with_another_hour(draft, ada, jobs, time):
    services.prepare(session=draft, actor=ada)
    Outbox.objects.update(taken_at=time.at + timedelta(hours=1))
    assert services.housekeep(time.at + timedelta(seconds=10)) == 1
    assert jobs() == [("prepare_session", [draft.pk])] * 2


def test_a_release_that_died_goes_on_though_the_preparation_had_failed(draft, ada, jobs, time):
    session = services.prepare(session=draft, actor=ada)
    session.phases.filter(key="cluster").update(status="failed")
    assert services.housekeep(time.advance(60)) == 0  # that waits for a person
    services.end(session=session, actor=ada)
    services.release(session=session, actor=ada)
    later = time.at + timedelta(days=400)
    Outbox.objects.update(taken_at=time.at)
    assert services.housekeep(later) == 1
    assert jobs()[-1] == ("release_session", [session.pk])
    session.phases.filter(key="cut").update(status="failed")
    assert services.housekeep(later + timedelta(days=1)) == 0


def test_deadlines_follow_the_planned_end(live, ada, time):
    def deadlines():
        return set(FaultRun.objects.values_list("deadline", flat=True))

    start = time.at
    assert deadlines() == {start + timedelta(minutes=90)}
    services.extend(session=live, minutes=10, actor=ada)
    assert deadlines() == {start + timedelta(minutes=100)}
    services.pause(session=live, actor=ada)
    assert deadlines() == {start + timedelta(hours=8)}
    time.advance(600)
    services.resume(session=live, actor=ada)
    assert deadlines() == {start + timedelta(minutes=110)}
    services.end(session=live, actor=ada)
    assert deadlines() == {time.at + timedelta(minutes=30)}


def test_nothing_is_extended_past_the_eight_hours_of_a_fault(live, ada):
    for _ in range(3):
        services.extend(session=live, minutes=120, actor=ada)
    with pytest.raises(SessionError, match="withdrawn at 20:00") as caught:
        services.extend(session=live, minutes=60, actor=ada)
    assert caught.value.field == "minutes"


def test_strangers_see_nothing(draft, ada, grace, mallory, root):
    assert [list(selectors.sessions_for(user)) for user in (ada, grace, mallory, root)] == [
        [draft],
        [draft],
        [],
        [draft],
    ]
