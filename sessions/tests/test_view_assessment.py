from __future__ import annotations

import pytest

from sessions import services

HTMX = {"HX-Request": "true"}
FIELDS = {"overall": "yes", "takeaways": "Calm", "strengths": "", "concerns": "", "private_notes": ""}


@pytest.fixture
def url(ended) -> str:
    return f"/sessions/{ended.uuid}/assessment/"


@pytest.fixture
def own(ended, ada):
    return ended.assessments.get(interviewer=ada)


def test_it_saves_while_one_types(client, ada, url, own):
    client.force_login(ada)
    response = client.post(url, {**FIELDS, "version": 0}, headers=HTMX)
    own.refresh_from_db()
    assert "Saved" in response.content.decode()
    assert own.takeaways == "Calm"
    assert own.submitted_at is None


def test_one_click_leads_to_the_review_and_submits_nothing(client, ada, url, own):
    client.force_login(ada)
    response = client.post(url, {**FIELDS, "version": 0, "submit": "yes"})
    own.refresh_from_db()
    assert (response.status_code, response["Location"]) == (302, f"{url}review/")
    assert (own.submitted_at, own.takeaways) == (None, "Calm")
    again = client.post(url, {**FIELDS, "version": 1, "submit": "yes"}, headers=HTMX)
    assert again["HX-Redirect"] == f"{url}review/"


def test_a_missing_recommendation_is_told_at_its_field_and_the_text_is_kept(client, ada, url, own):
    client.force_login(ada)
    response = client.post(url, {**FIELDS, "overall": "no_decision", "version": 0, "submit": "yes"})
    page = response.content.decode()
    assert response.status_code == 422
    assert "Choose a recommendation before you submit." in page
    assert "Calm" in page
    assert 'id="version-assessment" value="1"' in page  # the text was saved: what follows is no stale edit


def test_a_stale_save_is_refused_and_the_text_is_kept(client, ada, url, own):
    client.force_login(ada)
    client.post(url, {**FIELDS, "version": 0})
    response = client.post(url, {**FIELDS, "takeaways": "Other", "version": 0})
    own.refresh_from_db()
    assert response.status_code == 409
    assert "Other" in response.content.decode()
    assert own.takeaways == "Calm"


def test_a_stale_autosave_gets_what_is_stored_field_by_field(client, ada, url):
    client.force_login(ada)
    client.post(url, {**FIELDS, "version": 0}, headers=HTMX)
    response = client.post(url, {**FIELDS, "takeaways": "Other", "version": 0}, headers=HTMX)
    assert response.status_code == 409
    assert '<data value="Calm" data-stored="takeaways">' in response.content.decode()


def test_a_submitted_one_opens_again_only_with_a_reason(client, ada, url, own):
    client.force_login(ada)
    services.save_assessment(session=own.session, actor=ada, version=0, overall="yes", takeaways="Calm")
    services.submit_assessment(session=own.session, actor=ada)
    assert client.post(f"{url}revise/", {"reason": " "}).status_code == 422
    assert client.post(f"{url}revise/", {"reason": "Heard the recording"}).status_code == 302
    own.refresh_from_db()
    assert (own.submitted_at, own.revision) == (None, 2)


def test_it_hides_other_peoples_sessions(client, mallory, url):
    client.force_login(mallory)
    assert client.post(url, FIELDS).status_code == 404
    assert client.post(f"{url}revise/").status_code == 404


def test_it_asks_a_stranger_to_sign_in(client, url):
    assert client.post(url, FIELDS).status_code == 302


def test_it_rejects_get(client, ada, url):
    client.force_login(ada)
    assert client.get(url).status_code == 405


def test_a_refused_submission_with_htmx_replaces_only_the_form(client, ada, url, own):
    client.force_login(ada)
    data = {**FIELDS, "overall": "no_decision", "version": 0, "submit": "yes"}
    response = client.post(url, data, headers=HTMX)
    assert response["HX-Retarget"] == "#assessment"
    assert "Choose a recommendation" in response.content.decode()
    assert "<html" not in response.content.decode()
