"""The scorecard's page and files: the four cases of every view, and what the page shows."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse

from sessions import selectors, services

NAMES = ["scorecard", "scorecard-pdf", "scorecard-json"]


@pytest.fixture(params=NAMES)
def url(request, ended):
    return reverse(request.param, args=[ended.uuid])


@pytest.fixture
def page_url(ended):
    return reverse("scorecard", args=[ended.uuid])


def submit(session, user, **texts):
    own = selectors.assessment_for(session, user)
    texts = {"takeaways": "Calm", **texts}
    services.save_assessment(session=session, actor=user, version=own.version, overall="yes", **texts)
    services.submit_assessment(session=session, actor=user)


def test_it_is_there_for_its_interviewers(client, ada, url):
    client.force_login(ada)
    response = client.get(url)
    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]


def test_it_hides_other_peoples_sessions(client, mallory, url):
    client.force_login(mallory)
    assert client.get(url).status_code == 404


def test_it_asks_strangers_to_sign_in(client, url):
    response = client.get(url)
    assert response.status_code == 302
    assert response["Location"].startswith(reverse("login"))


def test_it_refuses_other_methods(client, ada, url):
    client.force_login(ada)
    assert client.post(url).status_code == 405


def test_quiet_time_hides_it_and_it_is_back_afterwards(client, ada, live, time):
    client.force_login(ada)
    services.begin_quiet(session=live, actor=ada)
    page, pdf, data = (client.get(reverse(name, args=[live.uuid])) for name in NAMES)
    assert (page.status_code, page["Location"]) == (302, reverse("session-detail", args=[live.uuid]))
    assert (pdf.status_code, data.status_code) == (409, 409)
    assert "quiet time" in data.content.decode()

    time.advance(301)
    assert [client.get(reverse(name, args=[live.uuid])).status_code for name in NAMES] == [200, 200, 200]


def test_the_files_come_as_downloads(client, ada, ended):
    client.force_login(ada)
    pdf = client.get(reverse("scorecard-pdf", args=[ended.uuid]))
    data = client.get(reverse("scorecard-json", args=[ended.uuid]))

    assert pdf["Content-Type"] == "application/pdf"
    assert pdf["Content-Disposition"] == 'attachment; filename="scorecard-sam-doe-2026-05-04.pdf"'
    assert pdf.content.startswith(b"%PDF")
    assert json.loads(data.content)["candidate"] == {"name": "Sam Doe"}


def test_the_page_shows_checks_ratings_and_who_is_missing(client, ada, page_url, ended):
    submit(ended, ada, takeaways="Calm and <exact>.")
    client.force_login(ada)
    html = client.get(page_url).content.decode()

    for words in ("Sam Doe", "Calm and &lt;exact&gt;.", "Not submitted yet: grace", "Not run", "Not&nbsp;assessed"):
        assert words in html


def test_the_page_tells_nothing_rated_from_nothing_submitted(client, ada, grace, page_url, ended):
    submit(ended, ada)
    client.force_login(ada)
    assert "no submitted rating yet" in client.get(page_url).content.decode()
    submit(ended, grace)
    html = client.get(page_url).content.decode()
    assert "nothing was rated" in html
    assert "no submitted rating yet" not in html


def test_the_page_of_an_interviewer_who_has_not_submitted_is_blind(client, ada, grace, page_url, ended):
    services.add_note(session=ended, text="Between us", actor=ada)
    submit(ended, ada, takeaways="Calm and exact.", private_notes="Mine alone")
    client.force_login(grace)
    html = client.get(page_url).content.decode()

    assert "Calm and exact." not in html
    assert "Between us" not in html
    assert "Mine alone" not in html


def test_an_admin_sees_submission_states_only(client, root, ada, page_url, ended):
    submit(ended, ada, takeaways="Calm and exact.")
    client.force_login(root)
    html = client.get(page_url).content.decode()

    assert "Not submitted yet: grace" in html
    assert "There is nothing to show you yet." in html
    assert "Calm and exact." not in html


def test_the_page_of_a_draft_works(client, ada, draft):
    client.force_login(ada)
    html = client.get(reverse("scorecard", args=[draft.uuid])).content.decode()
    assert "not started" in html
