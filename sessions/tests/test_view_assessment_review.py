"""The review before an assessment is submitted."""

from __future__ import annotations

import re

import pytest

from sessions import selectors, services, subjects
from sessions.models import Assessment


@pytest.fixture
def own(ended, ada):
    return services.save_assessment(session=ended, actor=ada, version=0, overall="yes", takeaways="Calm")


@pytest.fixture
def url(ended, own) -> str:
    return f"/sessions/{ended.uuid}/assessment/review/"


@pytest.fixture
def rate(ended, scenario, ada):
    """Rate the criterion of this number as ada."""

    def go(index, level=3, **fields):
        key = selectors.pack_for(scenario).rubric[index].key
        services.save_rating(scenario=scenario, criterion=key, level=level, version=0, actor=ada, **fields)

    return go


@pytest.fixture
def rated(rate, scenario):
    """Three of six criteria rated: one with a note, one from memory, one without anything."""
    rate(0, note="Read the log first.")
    rate(1, from_memory=True)
    rate(2, level=2)


def reviewed(page) -> str:
    return re.search(r'name="reviewed" value="([^"]+)"', page)[1]


def test_it_shows_what_is_missing_beside_the_ratings(client, ada, url, rated):
    client.force_login(ada)
    page = client.get(url).content.decode()
    assert page.count("Not assessed</span>") == 3 + 4  # of the scenario, and of the whole interview
    assert page.count("No evidence</span>") == 1
    assert page.count("from memory</span>") == 1
    assert "7 criteria not assessed and 1 rating without evidence" in " ".join(page.split())
    assert "Read the log first." in page
    assert "Calm" in page


def test_it_submits_nothing_before_the_gaps_are_confirmed(client, ada, url, own, rated):
    client.force_login(ada)
    data = {"reviewed": reviewed(client.get(url).content.decode())}
    refused = client.post(url, data)
    own.refresh_from_db()
    assert (refused.status_code, own.submitted_at) == (422, None)
    assert "Confirm that you submit with these gaps" in refused.content.decode()
    page = client.post(url, {**data, "gaps": "on"}, follow=True).content.decode()
    own.refresh_from_db()
    assert own.submitted_at is not None
    assert "Your assessment is submitted." in page


def test_an_empty_assessment_comes_back_with_what_to_do(client, grace, ended):
    client.force_login(grace)
    url = f"/sessions/{ended.uuid}/assessment/"
    response = client.post(url, {"version": "0", "overall": "yes", "submit": "yes"})
    assert response.status_code == 422
    assert "There is nothing to submit yet: no criterion is rated" in response.content.decode()
    assert 'id="id_takeaways_error"' in response.content.decode()
    data = {"reviewed": reviewed(client.get(f"{url}review/").content.decode()), "gaps": "on"}
    refused = client.post(f"{url}review/", data)
    assert refused.status_code == 422
    assert "There is nothing to submit yet" in refused.content.decode()
    assert not Assessment.objects.filter(submitted_at__isnull=False).exists()


def test_nothing_is_asked_where_nothing_is_missing(client, ada, url, own, rate, scenario):
    for index in range(len(selectors.pack_for(scenario).rubric)):
        rate(index, note="Seen.")
    whole = subjects.of_interview()
    for criterion in whole.criteria:
        entered = {"level": 3, "note": "Seen.", "version": 0}
        services.save_subject_rating(
            session=scenario.session, subject=whole, criterion=criterion.key, actor=ada, **entered
        )
    client.force_login(ada)
    page = client.get(url).content.decode()
    assert 'name="gaps"' not in page
    client.post(url, {"reviewed": reviewed(page)})
    own.refresh_from_db()
    assert own.submitted_at is not None


def test_a_question_that_was_asked_is_a_gap_until_its_answer_is_rated(client, ada, grace, ended, url, own, question):
    client.force_login(ada)
    assert client.get(url).content.decode().count("Not assessed</span>") == 10
    services.save_question_record(question=question, answer="Majority.", version=0, actor=grace)
    assert "Majority." not in client.get(url).content.decode()
    services.save_question_record(question=question, answer="A quorum.", version=0, actor=ada)
    page = client.get(url).content.decode()
    assert page.count("Not assessed</span>") == 11
    assert "A quorum." in page
    assert f'href="/sessions/{ended.uuid}/#question-{question.pk}"' in page
    services.save_question_record(question=question, answer="A quorum.", level=3, version=1, actor=ada)
    page = client.get(url).content.decode()
    assert page.count("Not assessed</span>") == 10
    assert "No evidence</span>" not in page  # the answer is the evidence


def test_a_rating_from_another_tab_is_read_before_it_is_submitted(client, ada, url, own, rated, rate):
    client.force_login(ada)
    data = {"reviewed": reviewed(client.get(url).content.decode()), "gaps": "on"}
    rate(3, level=1)
    response = client.post(url, data)
    own.refresh_from_db()
    assert (response.status_code, own.submitted_at) == (409, None)
    assert "has changed since you read it" in response.content.decode()


def test_after_submitting_it_leads_back_to_the_session(client, ada, url, ended):
    services.submit_assessment(session=ended, actor=ada)
    client.force_login(ada)
    assert client.get(url)["Location"] == f"/sessions/{ended.uuid}/"


def test_it_hides_other_peoples_sessions(client, mallory, root, url):
    client.force_login(mallory)
    assert client.get(url).status_code == 404
    client.force_login(root)  # sees every session and assesses none
    assert client.post(url).status_code == 404


def test_it_asks_a_stranger_to_sign_in(client, url):
    assert client.get(url).status_code == 302


def test_it_rejects_put(client, ada, url):
    client.force_login(ada)
    assert client.put(url).status_code == 405
