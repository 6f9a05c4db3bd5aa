from __future__ import annotations

import pytest

from sessions import services
from sessions.models import HintRelease, Note, QuestionVersion, Rating
from sessions.selectors import pack_for

HTMX = {"HX-Request": "true"}


@pytest.fixture
def criterion(scenario) -> str:
    return pack_for(scenario).rubric[0].key


@pytest.fixture
def urls(live, scenario, question, criterion) -> dict[str, str]:
    """The addresses of all the small forms of the live page."""
    base = f"/sessions/{live.uuid}"
    return {
        "hint": f"{base}/scenarios/{scenario.uuid}/hints/0/",
        "rating": f"{base}/scenarios/{scenario.uuid}/ratings/{criterion}/",
        "note": f"{base}/notes/",
        "asked": f"{base}/questions/{question.uuid}/asked/",
        "answer": f"{base}/questions/{question.uuid}/answer/",
        "safety": f"{base}/ratings/safety/",
    }


@pytest.fixture
def post(client, ada, urls):
    """Return a function that sends one of the forms as ada through htmx."""

    def send(name, **data):
        client.force_login(ada)
        return client.post(urls[name], data, headers=HTMX)

    return send


@pytest.fixture
def spoken(live):
    """The session with a part of tasks alone, and the address of its criterion."""
    live.parts = [*live.parts, {"title": "Node tour", "minutes": 5, "tasks": "Show **me**.", "criteria": ["Labels"]}]
    live.save()
    return f"/sessions/{live.uuid}/parts/2/ratings/labels/"


def test_a_part_without_a_fault_is_rated_by_what_it_lists(client, ada, live, spoken):
    client.force_login(ada)
    text = client.post(spoken, {"level": "4", "note": "All", "version": "0"}, headers=HTMX).content.decode()
    assert "1 of 11 criteria rated" in text
    rating = Rating.objects.get()
    assert (rating.subject, rating.part, rating.criterion, rating.level) == ("part", 2, "labels", 4)
    page = client.get(f"/sessions/{live.uuid}/?whole").content.decode()
    assert "<strong>me</strong>" in page
    assert f'hx-post="{spoken}"' in page


def test_parts_with_scenarios_or_questions_are_not_rated_as_parts(client, ada, live, spoken):
    client.force_login(ada)
    for number in (0, 1, 3):
        address = spoken.replace("parts/2", f"parts/{number}")
        assert client.post(address, {"level": "4", "version": "0"}).status_code == 404
    assert not Rating.objects.exists()


def test_an_unknown_criterion_of_the_interview_is_refused(client, ada, live):
    client.force_login(ada)
    response = client.post(f"/sessions/{live.uuid}/ratings/charm/", {"level": "4", "version": "0"}, headers=HTMX)
    assert response.status_code == 422
    assert not Rating.objects.exists()


def test_a_part_hides_from_strangers_and_rejects_get(client, ada, mallory, spoken):
    assert client.post(spoken).status_code == 302
    client.force_login(mallory)
    assert client.post(spoken).status_code == 404
    client.force_login(ada)
    assert client.get(spoken).status_code == 405


def test_a_hint_is_released_and_marked(post):
    text = post("hint").content.decode()
    assert HintRelease.objects.count() == 1
    assert "Released 00:00" in text


def test_a_rating_is_saved_with_its_new_version(post):
    text = post("rating", level="3", note="Read the log", version="0").content.decode()
    assert Rating.objects.get().level == 3
    assert "Saved" in text
    assert "1 of 10 criteria rated" in text
    assert 'value="1" hx-swap-oob="true"' in text


def test_a_rating_from_memory_needs_no_evidence(post):
    assert "1 without evidence" in post("rating", level="3", version="0").content.decode()
    text = post("rating", level="3", from_memory="on", version="1").content.decode()
    assert "without evidence" not in text
    assert Rating.objects.get().from_memory is True


def test_not_assessed_is_null(post):
    post("rating", level="3", version="0")
    post("rating", level="", version="1")
    assert Rating.objects.get().level is None


def test_a_stale_rating_shows_what_is_stored_and_overwrites_nothing(post):
    post("rating", level="3", note="first", version="0")
    response = post("rating", level="1", note="second", version="0")
    assert response.status_code == 409
    text = response.content.decode()
    assert "What you typed is still here" in text
    assert '<data value="3" data-stored="level">' in text
    assert '<data value="first" data-stored="note">' in text
    assert Rating.objects.get().level == 3


@pytest.mark.parametrize("level", ["0", "5", "-1", "x", "1.5"])
def test_an_odd_level_is_refused(post, level):
    assert post("rating", level=level, version="0").status_code == 422
    assert not Rating.objects.filter(level__isnull=False).exists()


def test_a_note_is_kept_and_the_field_is_empty_again(post):
    text = post("note", text="Reads events first.").content.decode()
    assert Note.objects.get().text == "Reads events first."
    assert "autofocus></textarea>" in text


def test_an_empty_note_is_refused_at_its_field(post):
    response = post("note", text="  ")
    assert response.status_code == 422
    assert 'id="note-error"' in response.content.decode()


def test_a_note_that_is_too_long_stays_in_the_field(post):
    response = post("note", text="x" * 4001)
    assert response.status_code == 422
    assert "x" * 4001 in response.content.decode()


def test_a_question_is_marked_as_asked_in_ones_own_record(post, question, ada):
    text = post("asked").content.decode()
    assert "00:00" in text
    assert "1 of 1 asked by me" in text
    record = question.records.get()
    assert (record.assessment.interviewer, record.asked_ms) == (ada, 0)


def test_a_record_is_saved_and_a_stale_one_refused(post, question):
    QuestionVersion.objects.update(follow_ups=["And with two?", "Why odd?"], hints=["Count votes."])
    saved = post("answer", text="Three of five", follow_up_2="on", hint_1="on", level="3", version="0")
    assert saved.status_code == 200
    assert "0 of 1 asked by me, 1 rated" in saved.content.decode()
    record = question.records.get()
    assert (record.answer, record.follow_ups, record.hints, record.version) == ("Three of five", [1], [0], 1)
    assert Rating.objects.get(question=question).level == 3
    response = post("answer", text="Other", version="0")
    assert response.status_code == 409
    text = response.content.decode()
    assert '<data value="Three of five" data-stored="text">' in text
    assert '<data value="3" data-stored="level">' in text
    assert '<data value="on" data-stored="follow_up_2">' in text
    assert '<data value="" data-stored="follow_up_1">' in text
    assert Rating.objects.get(question=question).level == 3


def test_a_rated_answer_that_nobody_noted_lacks_evidence(post):
    assert "1 rated, 1 without evidence" in post("answer", text="", level="2", version="0").content.decode()
    assert "evidence" not in post("answer", text="", level="2", from_memory="on", version="1").content.decode()


def test_all_work_without_javascript(client, ada, urls, live):
    client.force_login(ada)
    data = {"level": "2", "version": "0", "text": "Some text"}
    for url in urls.values():
        assert client.post(url, data)["Location"] == f"/sessions/{live.uuid}/"
    assert {rating.subject: rating.level for rating in Rating.objects.all()} == {
        "scenario": 2,
        "question": 2,
        "interview": 2,
    }
    assert Note.objects.count() == 1


def test_another_sessions_parts_are_not_found(client, ada, urls, live, scenario_version):
    other = services.create_session(owner=ada, candidate_name="B", scenario_versions=[scenario_version], minutes=60)
    client.force_login(ada)
    assert client.post(urls["hint"].replace(str(live.uuid), str(other.uuid))).status_code == 404


def test_it_hides_other_peoples_sessions(client, mallory, urls):
    client.force_login(mallory)
    assert {client.post(url).status_code for url in urls.values()} == {404}


def test_it_asks_a_stranger_to_sign_in(client, urls):
    assert {client.post(url).status_code for url in urls.values()} == {302}


def test_it_rejects_get(client, ada, urls):
    client.force_login(ada)
    assert {client.get(url).status_code for url in urls.values()} == {405}
