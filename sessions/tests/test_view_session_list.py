from __future__ import annotations

import pytest
from django.urls import reverse

from sessions import services
from sessions.models import InterviewSession, Plan, PlanVersion

URL = "/"


@pytest.fixture
def plan(scenario_version) -> PlanVersion:
    parts = [{"title": "Repair", "minutes": 20, "scenarios": ["architecture-mismatch"], "questions": []}]
    version = PlanVersion.objects.create(plan=Plan.objects.create(slug="demo"), number=1, title="Demo", parts=parts)
    version.scenarios.add(scenario_version)
    return version


def test_it_lists_my_sessions_with_their_state(client, ada, live, django_assert_max_num_queries):
    client.force_login(ada)
    with django_assert_max_num_queries(12):
        page = client.get(URL).content.decode()
    assert "Sam Doe" in page
    assert reverse("session-detail", args=[live.uuid]) in page
    assert "Live" in page


def test_it_hides_other_peoples_sessions(client, mallory, live):
    client.force_login(mallory)
    assert "Sam Doe" not in client.get(URL).content.decode()


def test_it_asks_a_stranger_to_sign_in(client, db):
    response = client.get(URL)
    assert response.status_code == 302
    assert response["Location"].startswith(reverse("login"))


def test_it_rejects_post(client, ada):
    client.force_login(ada)
    assert client.post(URL).status_code == 405


def test_an_empty_list_offers_the_plans(client, ada, plan):
    client.force_login(ada)
    page = client.get(URL).content.decode()
    assert "No sessions yet." in page
    assert f"?plan={plan.uuid}" in page


def test_an_empty_list_without_plans_offers_to_pick(client, ada):
    client.force_login(ada)
    assert "Pick scenarios" in client.get(URL).content.decode()


@pytest.fixture
def many(time, ada) -> None:
    """Two hundred sessions, one a minute; the oldest runs."""
    rows = [
        InterviewSession(
            owner=ada, candidate_name=f"Person {n:03}", title="GPU", minutes=60, created_at=time.advance(60)
        )
        for n in range(200)
    ]
    rows[0].state = "live"
    InterviewSession.objects.bulk_create(rows)


def test_two_hundred_sessions_are_paged_with_those_under_way_first(client, ada, many, django_assert_max_num_queries):
    client.force_login(ada)
    with django_assert_max_num_queries(12):
        page = client.get(URL).content.decode()
    assert "200 sessions" in page
    assert page.count('class="row-link"') == 25
    assert page.index("Person 000") < page.index("Person 199")
    assert "Person 174" not in page
    assert "Person 174" in client.get(URL, {"page": 2}).content.decode()
    assert "Page 8 of 8" in client.get(URL, {"page": "9999"}).content.decode()


def test_they_are_searched_by_candidate_and_filtered_by_state(client, ada, many):
    client.force_login(ada)
    found = client.get(URL, {"q": "person 17", "page": "1"}).content.decode()
    assert "12 sessions" in found
    assert "Person 170" in found
    live = client.get(URL, {"state": "under-way"}).content.decode()
    assert "1 session<" in live
    assert "Person 000" in live
    later = client.get(URL, {"q": "person", "page": 2}).content.decode()
    assert "?q=person&amp;page=3" in later


@pytest.mark.parametrize(
    "query", [{"q": "<script>"}, {"q": "\x00"}, {"state": "nonsense"}, {"page": "x"}, {"q": "y" * 5000}]
)
def test_odd_queries_do_no_harm(client, ada, draft, query):
    client.force_login(ada)
    response = client.get(URL, query)
    assert response.status_code == 200
    assert b"<script>" not in response.content


def test_a_failed_preparation_asks_for_attention(client, ada, draft):
    session = services.prepare(session=draft, actor=ada)
    session.phases.filter(position=1).update(status="failed", error="away")
    client.force_login(ada)
    assert "Needs you" in client.get(URL).content.decode()


def test_names_are_shown_as_text(client, ada, draft):
    draft.candidate_name = "<img src=x onerror=alert(1)>"
    draft.save()
    client.force_login(ada)
    assert "<img" not in client.get(URL).content.decode()
