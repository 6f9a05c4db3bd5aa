"""Budgets of pages: queries of the database, and bytes on the way."""

from __future__ import annotations

import pytest

from sessions import clock, frames, panels, selectors, services
from sessions.live import LiveState
from sessions.live import client as live_client
from sessions.models import Question, QuestionVersion

MAX_LIVE_QUERIES = 8
MAX_LIVE_BYTES = 74_000  # before compression, without the texts of the questions
MAX_SCORECARD_QUERIES = 16


@pytest.fixture
def many_questions(live, question_version):
    """The live session with 26 questions that have texts of two kilobytes each."""
    bank = question_version.question.bank
    for number in range(25):
        question = Question.objects.create(bank=bank, key=f"q{number}", category="Basics", kind=Question.Kind.FULL)
        version = QuestionVersion.objects.create(
            question=question,
            number=1,
            digest=f"q{number}",
            title=f"Question {number}",
            expected_answer="word " * 99,
        )
        live.questions.create(question_version=version, position=number + 1, part=0)
    return live


@pytest.fixture
def observed(settings, redis_url, many_questions):
    """The live session while an observer draws it."""
    settings.REDIS_URL = redis_url
    connection = live_client()
    connection.flushdb()
    drawn = {
        name: panels.render(many_questions, name, panels.INTERVIEWER, LiveState(synced_at=clock.now()))
        for name in panels.names_for(panels.INTERVIEWER)
    }
    frames.publish(connection, str(many_questions.uuid), panels.INTERVIEWER, frames.Frame(1, clock.now(), drawn, {}))
    frames.sign_of_life(connection)
    return many_questions


@pytest.fixture
def fetch(client, ada, django_assert_max_num_queries):
    """Fetch a page of a session as ada, with at most so many queries, and return its bytes."""

    def go(session, path, queries) -> bytes:
        client.force_login(ada)
        client.get(f"/sessions/{session.uuid}/{path}")  # a pack is parsed once for each process
        with django_assert_max_num_queries(queries):
            response = client.get(f"/sessions/{session.uuid}/{path}")
        assert response.status_code == 200
        return response.content

    return go


def test_the_live_page_asks_and_weighs_little_with_many_questions(fetch, observed, ada):
    services.add_note(session=observed, text="Calm", actor=ada)
    page = fetch(observed, "", MAX_LIVE_QUERIES)
    assert len(page) <= MAX_LIVE_BYTES
    assert b"Question 24" in page  # in the run of show
    assert b"word word" not in page


def test_texts_of_questions_and_notes_come_in_one_request_afterwards(fetch, observed, ada):
    services.add_note(session=observed, text="Calm", actor=ada)
    tools = fetch(observed, "tools/", 8)
    assert tools.count(b'class="question fold"') == 26
    assert b"word word" in tools
    assert b'<div id="notes-list" hx-swap-oob="true">' in tools
    assert b"Calm" in tools
    assert tools.count(b"<textarea") == 26 + 4  # the field of a new note stays the one on the page
    assert tools.count(b'class="criterion"') == 4  # those of the whole interview


def test_without_javascript_one_link_shows_everything(fetch, observed):
    page = fetch(observed, "?whole", 12)
    assert b"word word" in page


def test_without_an_observer_the_page_is_drawn_from_the_database(fetch, many_questions):
    page = fetch(many_questions, "", 13)
    assert b'id="panel-timeline"' in page
    assert b'id="panel-checks"' in page


def test_the_scorecard_asks_little(fetch, many_questions, scenario, ada, grace):
    for user in (ada, grace):
        for criterion in selectors.pack_for(scenario).rubric:
            services.save_rating(
                scenario=scenario, criterion=criterion.key, level=3, note="Seen", version=0, actor=user
            )
        services.add_note(session=many_questions, text="Calm", actor=user)
    services.release_hint(scenario=scenario, index=0, actor=ada)
    session = services.end(session=many_questions, actor=ada)
    for user in (ada, grace):
        own = selectors.assessment_for(session, user)
        services.save_assessment(session=session, actor=user, version=own.version, overall="yes")
        services.submit_assessment(session=session, actor=user)
    fetch(session, "scorecard/", MAX_SCORECARD_QUERIES)


def test_the_tools_hide_other_peoples_sessions(client, mallory, live):
    client.force_login(mallory)
    assert client.get(f"/sessions/{live.uuid}/tools/").status_code == 404


def test_the_tools_ask_a_stranger_to_sign_in_and_reject_post(client, ada, live):
    assert client.get(f"/sessions/{live.uuid}/tools/").status_code == 302
    client.force_login(ada)
    assert client.post(f"/sessions/{live.uuid}/tools/").status_code == 405
