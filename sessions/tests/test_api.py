"""The JSON API: thin, for the signed-in user, with refusals that name the field."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from sessions import services
from sessions.models import InterviewSession, Plan

pytestmark = pytest.mark.usefixtures("time")


@pytest.fixture
def as_ada(client, ada):
    client.force_login(ada)
    return client


def post(client, url, body=None):
    return client.post(f"/api/sessions{url}", json.dumps(body or {}), content_type="application/json")


def test_it_creates_a_session_from_picks(as_ada, scenario_version):
    answer = post(as_ada, "", {"candidate_name": "Sam", "scenarios": [str(scenario_version.uuid)], "minutes": 45})
    assert answer.status_code == 201
    body = answer.json()
    assert (body["state"], body["remaining_s"], body["scenarios"]) == ("draft", 2700, ["architecture-mismatch"])
    assert as_ada.get(f"/api/sessions/{body['uuid']}").json() == body
    assert as_ada.get("/api/sessions").json() == [body]


def test_a_session_follows_its_plan_in_pauses_or_says_otherwise(as_ada, scenario_version):
    parts = [{"title": "Repair", "minutes": 20, "scenarios": ["architecture-mismatch"], "questions": []}]
    plan = Plan.objects.create(slug="strict")
    version = plan.versions.create(number=1, title="Strict", parts=parts, close_while_paused=True)
    version.scenarios.add(scenario_version)
    for said in ({}, {"close_while_paused": False}, {"close_while_paused": True}):
        post(as_ada, "", {"candidate_name": "Sam", "plan_version": str(version.uuid), **said})
    chosen = InterviewSession.objects.order_by("pk").values_list("close_while_paused", flat=True)
    assert list(chosen) == [True, False, True]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param({}, "candidate_name", id="missing"),
        pytest.param({"candidate_name": ""}, "candidate_name", id="empty"),
        pytest.param({"candidate_name": "Sam"}, "scenarios", id="nothing-picked"),
        pytest.param({"candidate_name": "Sam", "minutes": "long"}, "minutes", id="type"),
        pytest.param({"candidate_name": "Sam", "scheduled_at": "2026-05-04T12:00:00"}, "scheduled_at", id="naive"),
        pytest.param({"candidate_name": "Sam", "interviewers": ["nobody"]}, "interviewers", id="unknown-person"),
        pytest.param(
            {"candidate_name": "Sam", "scenarios": ["00000000-0000-4000-8000-000000000000"]},
            "scenarios",
            id="unknown",
        ),
    ],
)
def test_it_names_the_field_it_refuses(as_ada, body, field):
    answer = post(as_ada, "", body)
    assert answer.status_code == 422
    assert answer.json()["field"].split(".")[-1] == field
    assert answer.json()["message"]
    assert not InterviewSession.objects.exists()


def test_it_moves_a_session_through_its_states(as_ada, ready):
    states = [
        post(as_ada, f"/{ready.uuid}/{action}").json()["state"]
        for action in ("start", "pause", "resume", "end", "reopen", "end", "release")
    ]
    assert states == ["live", "paused", "live", "ended", "live", "ended", "ended"]


def test_a_long_list_costs_no_more_queries(as_ada, draft, ada, scenario_version, django_assert_num_queries):
    for _ in range(5):
        services.create_session(owner=ada, candidate_name="Sam", scenario_versions=[scenario_version])
    with django_assert_num_queries(8):
        assert len(as_ada.get("/api/sessions").json()) == 6


def test_it_prepares_and_shows_the_phases(as_ada, draft):
    body = post(as_ada, f"/{draft.uuid}/prepare").json()
    assert body["state"] == "preparing"
    assert body["phases"][0] == {
        "key": "cluster",
        "title": "Practice cluster",
        "status": "queued",
        "detail": "",
        "error": "",
    }


def test_it_extends(as_ada, live):
    assert post(as_ada, f"/{live.uuid}/extend", {"minutes": 5}).json()["remaining_s"] == 3900
    refused = post(as_ada, f"/{live.uuid}/extend", {"minutes": 0})
    assert (refused.status_code, refused.json()["field"]) == (422, "minutes")


def test_it_refuses_what_the_state_forbids(as_ada, draft):
    answer = post(as_ada, f"/{draft.uuid}/pause")
    assert answer.status_code == 422
    assert answer.json()["message"] == "This session is draft; only a session that is live can do that."


def test_it_names_the_actions_there_are(as_ada, draft):
    answer = post(as_ada, f"/{draft.uuid}/explode")
    assert answer.status_code == 422
    assert "prepare, retry, start" in answer.json()["message"]


def test_it_hides_other_peoples_sessions(client, mallory, draft):
    client.force_login(mallory)
    assert client.get(f"/api/sessions/{draft.uuid}").status_code == 404
    assert post(client, f"/{draft.uuid}/prepare").status_code == 404
    assert client.get("/api/sessions").json() == []


def test_it_asks_for_a_login(client, draft):
    assert client.get("/api/sessions").status_code == 401
    assert post(client, f"/{draft.uuid}/prepare").status_code == 401


def test_it_refuses_a_foreign_page(ada, draft):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(ada)
    assert post(strict, f"/{draft.uuid}/prepare").status_code == 403
