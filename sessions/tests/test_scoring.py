"""Ratings and assessments: blind, versioned, and frozen once submitted."""

from __future__ import annotations

import pytest

from sessions import selectors, services
from sessions.errors import SessionError, StaleEdit
from sessions.models import AssessmentRevision, Rating
from sessions.models.append_only import Rewritten
from sessions.services.scoring import draft_version


@pytest.fixture
def criterion(scenario) -> str:
    return selectors.pack_for(scenario).rubric[0].key


@pytest.fixture
def rate(scenario, criterion, ada):
    """Save a rating as ada; keywords change what is saved."""

    def save(**changes) -> Rating:
        fields = {"criterion": criterion, "level": 3, "note": "Read the events.", "version": 0, "actor": ada}
        return services.save_rating(scenario=scenario, **{**fields, **changes})

    return save


@pytest.fixture
def submit(ended):
    """Choose a recommendation for somebody and submit."""

    def go(user, overall="yes"):
        own = selectors.assessment_for(ended, user)
        services.save_assessment(session=ended, actor=user, version=own.version, overall=overall, takeaways="Calm")
        return services.submit_assessment(session=ended, actor=user)

    return go


def test_a_rating_is_saved_with_its_version(live, rate):
    rating = rate()
    assert (rating.level, rating.note, rating.version) == (3, "Read the events.", 1)
    assert rate(level=None, version=1).level is None


def test_a_stale_rating_is_refused_and_loses_nothing(live, rate):
    rate()
    with pytest.raises(StaleEdit) as caught:
        rate(level=1, note="Too late.")
    assert (caught.value.current.level, caught.value.current.note) == (3, "Read the events.")
    assert Rating.objects.get().version == 1


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"criterion": "charm"}, "criterion", id="unknown-criterion"),
        pytest.param({"level": 0}, "level", id="zero"),
        pytest.param({"level": 5}, "level", id="five"),
        pytest.param({"note": "x" * 8001}, "note", id="long-note"),
    ],
)
def test_it_refuses_a_bad_rating_at_its_field(live, rate, changes, field):
    with pytest.raises(SessionError) as caught:
        rate(**changes)
    assert caught.value.field == field
    assert not Rating.objects.exists()


def test_nobody_rates_before_the_start(ready, rate):
    with pytest.raises(SessionError, match="to be rated"):
        rate()


def test_a_stranger_does_not_assess(live, rate, mallory):
    with pytest.raises(SessionError, match="Only the interviewers"):
        rate(actor=mallory)


def test_the_time_line_never_tells_a_level(live, rate):
    rate(level=4)
    event = live.events.latest("seq")
    assert event.kind == "rating.saved"
    assert "level" not in event.payload


def test_everybody_is_blind_until_they_submit(ended, ada, grace, root, submit):
    def seen(user):
        return {row.interviewer.username for row in selectors.visible_assessments(ended, user)}

    assert [seen(user) for user in (ada, grace, root)] == [{"ada"}, {"grace"}, set()]
    submit(ada)
    assert [seen(user) for user in (ada, grace, root)] == [{"ada", "grace"}, {"grace"}, set()]
    assert selectors.submission_states(ended) == [(ada, True), (grace, False)]


def test_the_last_submission_scores_the_session_and_keeps_its_cluster(ended, ada, grace, submit, jobs):
    submit(ada)
    ended.refresh_from_db()
    assert (ended.state, jobs()) == ("ended", [])
    submit(grace)
    ended.refresh_from_db()
    assert (ended.state, jobs()) == ("scored", [])
    assert ended.release_asked_at is None


def test_a_scored_session_is_released_30_minutes_after_its_end(ended, ada, grace, submit, jobs, time):
    submit(ada)
    submit(grace)
    services.housekeep(time.advance(29 * 60))
    assert jobs() == []
    services.housekeep(time.advance(2 * 60))
    assert jobs() == [("release_session", [ended.pk])]


def test_a_scored_session_can_be_reopened_and_keeps_what_was_submitted(ended, ada, grace, submit):
    submit(ada)
    submit(grace)
    session = services.reopen(session=ended, actor=ada)
    assert session.state == "live"
    assert selectors.submission_states(session) == [(ada, True), (grace, True)]


def test_a_reopened_session_is_scored_again_when_it_ends_and_everybody_has_submitted(ended, ada, grace, submit):
    submit(ada)
    submit(grace)
    services.reopen(session=ended, actor=ada)
    session = services.end(session=ended, actor=ada)
    assert session.state == "scored"
    assert session.events.filter(kind="session.scored").count() == 2


def test_a_reopened_session_waits_for_whoever_has_not_submitted(ended, ada, submit):
    submit(ada)
    services.reopen(session=ended, actor=ada)
    assert services.end(session=ended, actor=ada).state == "ended"


def test_what_nobody_has_read_is_not_submitted(ended, ada, rate, submit):
    own = selectors.assessment_for(ended, ada)
    services.save_assessment(session=ended, actor=ada, version=own.version, overall="yes", takeaways="Calm")
    read = draft_version(selectors.assessment_for(ended, ada))
    rate()
    with pytest.raises(SessionError, match="has changed since you read it"):
        services.submit_assessment(session=ended, actor=ada, reviewed=read)
    newer = draft_version(selectors.assessment_for(ended, ada))
    assert services.submit_assessment(session=ended, actor=ada, reviewed=newer).submitted_at is not None


def test_it_needs_a_recommendation(ended, ada):
    with pytest.raises(SessionError, match="Choose a recommendation") as caught:
        services.submit_assessment(session=ended, actor=ada)
    assert caught.value.field == "overall"


def test_a_recommendation_with_nothing_rated_and_nothing_written_is_refused(ended, ada, rate):
    services.save_assessment(session=ended, actor=ada, version=0, overall="yes", private_notes="Not for others")
    with pytest.raises(SessionError, match="nothing to submit yet: no criterion is rated") as caught:
        services.submit_assessment(session=ended, actor=ada)
    assert caught.value.field == "takeaways"
    rate(level=None)  # "not assessed" is no rating
    with pytest.raises(SessionError, match="Rate what you saw"):
        services.submit_assessment(session=ended, actor=ada)


def test_an_interview_that_never_started_needs_a_recommendation_alone(ready, ada):
    session = services.end(session=ready, actor=ada)
    services.save_assessment(session=session, actor=ada, version=0, overall="no")
    assert services.submit_assessment(session=session, actor=ada).submitted_at is not None


def test_it_is_submitted_after_the_end_only(live, ada):
    with pytest.raises(SessionError, match="must be ended or scored"):
        services.submit_assessment(session=live, actor=ada)


def test_what_was_submitted_is_frozen_word_for_word(live, ada, rate, criterion, scenario):
    rate(level=2)
    session = services.end(session=live, actor=ada)
    texts = {"concerns": "Slow", "private_notes": "secret"}
    services.save_assessment(session=session, actor=ada, version=0, overall="no", **texts)
    services.submit_assessment(session=session, actor=ada)

    revision = AssessmentRevision.objects.get()
    saved = revision.content["ratings"][0]
    assert (revision.number, revision.content["overall"]) == (1, "no")
    assert saved["anchor"] == selectors.pack_for(scenario).rubric[0].anchors[2]
    assert "secret" not in str(revision.content)
    with pytest.raises(Rewritten):
        revision.save()


def test_a_submitted_assessment_refuses_edits(ended, ada, submit, rate):
    submit(ada)
    with pytest.raises(SessionError, match="submitted"):
        rate()
    with pytest.raises(SessionError, match="submitted"):
        services.save_assessment(session=ended, actor=ada, version=1, concerns="None.")


def test_a_later_edit_is_a_new_revision_with_a_reason(ended, ada, submit):
    submit(ada)
    with pytest.raises(SessionError) as caught:
        services.revise_assessment(session=ended, actor=ada, reason=" ")
    assert caught.value.field == "reason"
    services.revise_assessment(session=ended, actor=ada, reason="Misread the log.")
    submit(ada, overall="strong_yes")

    rows = AssessmentRevision.objects.values_list("number", "reason", "content__overall")
    assert list(rows) == [(1, "", "yes"), (2, "Misread the log.", "strong_yes")]


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"overall": "maybe"}, "overall"), ({"strengths": "x" * 8001}, "strengths"), ({"hat": "x"}, "hat")],
)
def test_it_refuses_a_bad_assessment_at_its_field(live, ada, fields, field):
    with pytest.raises(SessionError) as caught:
        services.save_assessment(session=live, actor=ada, version=0, **fields)
    assert caught.value.field == field


def test_a_stale_assessment_is_refused_and_loses_nothing(live, ada):
    services.save_assessment(session=live, actor=ada, version=0, strengths="Calm.")
    with pytest.raises(StaleEdit) as caught:
        services.save_assessment(session=live, actor=ada, version=0, strengths="")
    assert caught.value.current.strengths == "Calm."
