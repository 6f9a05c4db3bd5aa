"""Records of questions: each interviewer's own, complete, and unseen by the others until both have submitted."""

from __future__ import annotations

import pytest

from sessions import clock, panels, selectors, services
from sessions.errors import SessionError, StaleEdit
from sessions.live import LiveState
from sessions.models import QuestionRecord, Rating
from sessions.scorecards import as_json, build_scorecard

SECRET = "Grace heard: a majority of three"


@pytest.fixture
def wording(question):
    """The question with two follow-ups and a hint."""
    version = question.question_version
    version.follow_ups, version.hints = ["And with two?", "Why odd?"], ["Count the votes."]
    version.save()
    question.refresh_from_db()
    return version


@pytest.fixture
def by_grace(live, question, wording, grace):
    """Grace has asked, noted the answer, used a follow-up and the hint, and rated; all are odd enough to be found."""
    services.mark_asked(question=question, actor=grace)
    return services.save_question_record(
        question=question, answer=SECRET, follow_ups=[1], hints=[0], level=2, version=0, actor=grace
    )


def test_each_interviewer_has_a_record_of_their_own(live, question, by_grace, ada, grace, time):
    time.advance(90)
    services.mark_asked(question=question, actor=ada)
    services.save_question_record(question=question, answer="Quorum.", level=4, version=0, actor=ada)
    found = {row.assessment.interviewer: (row.asked_ms, row.answer) for row in QuestionRecord.objects.all()}
    assert found == {grace: (0, SECRET), ada: (90_000, "Quorum.")}
    levels = Rating.objects.filter(question=question).values_list("assessment__interviewer__username", "level")
    assert dict(levels) == {"grace": 2, "ada": 4}


def test_a_record_is_saved_on_the_version_it_was_read_at(live, question, by_grace, grace):
    with pytest.raises(StaleEdit) as caught:
        services.save_question_record(question=question, answer="Late.", level=4, version=0, actor=grace)
    assert caught.value.current.answer == SECRET
    assert Rating.objects.get(question=question).level == 2
    saved = services.save_question_record(question=question, answer="More.", version=1, actor=grace)
    assert (saved.version, saved.follow_ups) == (2, [])
    assert Rating.objects.get(question=question).level is None


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        pytest.param({"answer": "x" * 8001}, "answer", id="long-answer"),
        pytest.param({"follow_ups": [2]}, "follow_ups", id="no-such-follow-up"),
        pytest.param({"hints": [-1]}, "hints", id="no-such-hint"),
        pytest.param({"level": 5}, "level", id="no-such-level"),
    ],
)
def test_it_refuses_a_bad_record_at_its_field(live, question, wording, ada, fields, field):
    with pytest.raises(SessionError) as caught:
        services.save_question_record(question=question, actor=ada, version=0, **{"answer": "", **fields})
    assert caught.value.field == field
    assert not QuestionRecord.objects.exists()


def test_nobody_records_before_the_start_as_a_stranger_or_once_submitted(ready, question, ada, mallory):
    with pytest.raises(SessionError, match="to be rated"):
        services.save_question_record(question=question, answer="Early.", version=0, actor=ada)
    session = services.start(session=ready, actor=ada)
    for save in (services.mark_asked, services.save_question_record):
        more = {"answer": "x", "version": 0} if save is services.save_question_record else {}
        with pytest.raises(SessionError, match="Only the interviewers"):
            save(question=question, actor=mallory, **more)
    services.end(session=session, actor=ada)
    with pytest.raises(SessionError, match="to ask questions"):
        services.mark_asked(question=question, actor=ada)
    services.save_question_record(question=question, answer="From my notes.", version=0, actor=ada)
    services.save_assessment(session=session, actor=ada, version=0, overall="yes")
    services.submit_assessment(session=session, actor=ada)
    with pytest.raises(SessionError, match="is submitted"):
        services.save_question_record(question=question, answer="Later.", version=1, actor=ada)


def test_no_frame_and_no_page_of_another_tells_of_a_record(client, live, by_grace, ada):
    """Everything that is pushed, polled or fetched by ada, and the time line's own rows."""
    for role in (panels.INTERVIEWER, panels.CANDIDATE):
        for name in panels.names_for(role):
            before = panels.render(without_records(live), name, role, LiveState(synced_at=clock.now()))
            assert "Question asked" not in before
            assert "data-asked=" not in before
    client.force_login(ada)
    base = f"/sessions/{live.uuid}"
    for path in ("/", "/?whole", "/tools/", *(f"/panels/{name}/" for name in panels.names_for("interviewer"))):
        assert_unseen(client.get(base + path).content.decode())
    card = build_scorecard(session=live, viewer=ada)
    assert card["questions"][0]["records"] == []
    assert card["questions"][0]["asked_at"] is None
    assert_unseen(as_json(card).decode())
    for event in live.events.filter(kind__startswith="question."):
        assert set(event.payload) == {"question"}


def without_records(session):
    """Return the session fresh from the database, as the observer reads it."""
    return type(session).objects.get(pk=session.pk)


def assert_unseen(text):
    assert SECRET not in text
    assert "data-asked=" not in text
    assert "Question asked" not in text
    assert "Answer noted" not in text


def test_the_run_of_show_is_the_same_before_and_after_somebody_asks(live, question, grace):
    drawn = panels.render(without_records(live), "run", panels.INTERVIEWER, None)
    services.mark_asked(question=question, actor=grace)
    assert panels.render(without_records(live), "run", panels.INTERVIEWER, None) == drawn


def test_records_show_themselves_to_whoever_has_submitted(live, question, by_grace, ada, grace, root):
    session = services.end(session=live, actor=ada)
    services.save_question_record(question=question, answer="Ada's own", version=0, actor=ada)

    def seen(user):
        rows = build_scorecard(session=session, viewer=user)["questions"][0]["records"]
        return [row["interviewer"] for row in rows]

    assert (seen(ada), seen(grace), seen(root)) == (["ada"], ["grace"], [])
    submit(session, grace)
    assert (seen(ada), seen(grace), seen(root)) == (["ada"], ["grace"], [])
    submit(session, ada)
    assert (seen(ada), seen(grace), seen(root)) == (["ada", "grace"], ["ada", "grace"], ["ada", "grace"])
    row = build_scorecard(session=session, viewer=ada)["questions"][0]
    assert row["answer_note"] == f"ada: Ada's own\n\ngrace: {SECRET}"
    assert row["records"][1] == {
        "interviewer": "grace",
        "asked_at": "2026-05-04T12:00:00.000Z",
        "asked_ms": 0,
        "answer": SECRET,
        "follow_ups": ["Why odd?"],
        "hints": ["Count the votes."],
        "level": 2,
        "level_label": "Borderline",
    }


def test_a_submitted_record_stays_word_for_word_while_its_writer_revises(live, question, by_grace, ada, grace):
    session = services.end(session=live, actor=ada)
    services.save_assessment(session=session, actor=ada, version=0, takeaways="Calm")
    for user in (ada, grace):
        submit(session, user)
    services.revise_assessment(session=session, actor=grace, reason="typo")
    services.save_question_record(question=question, answer="Under way", level=4, version=1, actor=grace)
    for user in (ada, grace):
        text = as_json(build_scorecard(session=session, viewer=user)).decode()
        assert SECRET in text
        assert "Under way" not in text


def submit(session, user):
    own = selectors.assessment_for(session, user)
    services.save_assessment(session=session, actor=user, version=own.version, overall="yes")
    services.submit_assessment(session=session, actor=user)
