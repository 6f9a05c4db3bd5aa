from __future__ import annotations

import pytest
from django.urls import reverse

from sessions.models import Plan, PlanVersion

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


def test_names_are_shown_as_text(client, ada, draft):
    draft.candidate_name = "<img src=x onerror=alert(1)>"
    draft.save()
    client.force_login(ada)
    assert "<img" not in client.get(URL).content.decode()
