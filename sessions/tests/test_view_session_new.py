from __future__ import annotations

import pytest

from faults.models import Cluster
from sessions import part_minutes
from sessions.models import InterviewSession, Plan, PlanVersion

URL = "/sessions/new/"


@pytest.fixture
def plan(scenario_version, question_version) -> PlanVersion:
    parts = [
        {"title": "Repair", "minutes": 20, "scenarios": ["architecture-mismatch"], "questions": []},
        {"title": "Talk", "minutes": 10, "scenarios": [], "questions": [str(question_version.question.uuid)]},
    ]
    version = PlanVersion.objects.create(plan=Plan.objects.create(slug="demo"), number=1, title="Demo", parts=parts)
    version.scenarios.add(scenario_version)
    return version


def test_a_plan_and_a_name_are_enough(client, ada, plan, jobs):
    client.force_login(ada)
    response = client.post(URL, {"plan": plan.uuid, "candidate_name": "Sam Doe", "minutes": "", "prepare": ""})
    session = InterviewSession.objects.get()
    assert response["Location"] == f"/sessions/{session.uuid}/"
    assert session.state == "preparing"
    assert session.minutes == 30
    assert jobs() == [("prepare_session", [session.pk])]


def test_a_draft_is_not_prepared(client, ada, plan, jobs):
    client.force_login(ada)
    client.post(URL, {"plan": plan.uuid, "candidate_name": "Sam Doe", "draft": ""})
    assert InterviewSession.objects.get().state == "draft"
    assert jobs() == []


def test_scenarios_and_a_whole_category_can_be_picked(client, ada, grace, scenario_version, question_version):
    client.force_login(ada)
    category = f"{question_version.question.bank_id}:{question_version.question.category}"
    picks = {"scenarios": [scenario_version.uuid], "categories": [category], "interviewers": [grace.pk]}
    client.post(URL, {"candidate_name": "Sam Doe", "draft": "", **picks})
    session = InterviewSession.objects.get()
    assert session.scenarios.count() == 1
    assert session.questions.count() == 1
    assert set(session.interviewers.all()) == {ada, grace}


def test_an_empty_name_is_told_at_its_field_and_nothing_is_lost(client, ada, plan):
    client.force_login(ada)
    response = client.post(URL, {"plan": plan.uuid, "candidate_name": "", "title": "Kept title", "minutes": "45"})
    page = response.content.decode()
    assert response.status_code == 422
    assert 'id="id_candidate_name_error"' in page
    assert "Kept title" in page
    assert 'value="45"' in page
    assert not InterviewSession.objects.exists()


@pytest.mark.parametrize("minutes", ["0", "4", "451", "-5", "abc", "1e309", "99999999999999999999"])
def test_odd_minutes_are_told_at_their_field(client, ada, plan, minutes):
    client.force_login(ada)
    response = client.post(URL, {"plan": plan.uuid, "candidate_name": "Sam Doe", "minutes": minutes})
    assert response.status_code == 422
    assert 'id="id_minutes_error"' in response.content.decode()


def test_picking_nothing_is_told_at_the_scenarios(client, ada, scenario_version):
    client.force_login(ada)
    response = client.post(URL, {"candidate_name": "Sam Doe"})
    assert response.status_code == 422
    assert "Pick at least one scenario or one question." in response.content.decode()


def test_a_plan_that_is_gone_is_told(client, ada, plan):
    client.force_login(ada)
    plan.plan.archived = True
    plan.plan.save()
    response = client.post(URL, {"plan": plan.uuid, "candidate_name": "Sam Doe"})
    assert response.status_code == 422
    assert "not offered any more" in response.content.decode()


def test_the_pages_need_few_queries(client, ada, plan, django_assert_max_num_queries):
    client.force_login(ada)
    for query in ("", "?compose", f"?plan={plan.uuid}", "?plan=nonsense"):
        with django_assert_max_num_queries(12):
            assert client.get(URL + query).status_code == 200


def test_it_asks_a_stranger_to_sign_in(client, db):
    assert client.post(URL, {"candidate_name": "x"}).status_code == 302
    assert not InterviewSession.objects.exists()


def test_it_rejects_put(client, ada):
    client.force_login(ada)
    assert client.put(URL).status_code == 405


def test_an_empty_form_names_everything_that_is_missing_at_once(client, ada, scenario_version):
    client.force_login(ada)
    page = client.post(URL, {"candidate_name": "", "prepare": ""}).content.decode()
    assert "Say who the candidate is." in page
    assert "Pick at least one scenario or one question." in page


def test_a_wrong_method_gets_a_page_with_a_way_back(client, ada, live):
    client.force_login(ada)
    response = client.get(f"/sessions/{live.uuid}/notes/")
    assert (response.status_code, response["Allow"]) == (405, "POST")
    assert f'href="/sessions/{live.uuid}/"' in response.content.decode()
    assert "Nothing was changed." in response.content.decode()


def test_fewer_minutes_than_the_parts_need_are_told_before_anything_is_created(client, ada, plan):
    client.force_login(ada)
    response = client.post(URL, {"plan": plan.uuid, "candidate_name": "Sam Doe", "minutes": "12", "draft": ""})
    page = response.content.decode()
    assert response.status_code == 422
    assert "The parts need 30 minutes, and there are 12:" in page
    assert "“Repair” has 12 of its 20 minutes; “Talk” has no time." in page
    assert page.count('type="radio" name="too_short"') == 2
    assert not InterviewSession.objects.exists()


def test_the_parts_are_shortened_in_proportion(client, ada, plan):
    client.force_login(ada)
    data = {"plan": plan.uuid, "candidate_name": "Sam Doe", "minutes": "12", "too_short": "scale", "draft": ""}
    client.post(URL, data)
    session = InterviewSession.objects.get()
    assert [part["minutes"] for part in session.parts] == [8, 4]
    assert "has no time" not in client.get(f"/sessions/{session.uuid}/").content.decode()


def test_parts_that_are_kept_are_marked_where_they_do_not_fit(client, ada, plan):
    client.force_login(ada)
    data = {"plan": plan.uuid, "candidate_name": "Sam Doe", "minutes": "25", "too_short": "keep", "draft": ""}
    client.post(URL, data)
    session = InterviewSession.objects.get()
    assert [part["minutes"] for part in session.parts] == [20, 10]
    assert "5 of 10 min" in client.get(f"/sessions/{session.uuid}/").content.decode()


@pytest.mark.parametrize(
    ("planned", "minutes", "scaled"),
    [([35, 25], 5, [3, 2]), ([20, 10], 12, [8, 4]), ([1, 1, 58], 20, [1, 1, 18]), ([10] * 7, 5, [1] * 7)],
)
def test_scaled_minutes_add_up_and_leave_nobody_without(planned, minutes, scaled):
    assert part_minutes.scale(planned, minutes) == scaled


def test_it_offers_clusters_that_an_admin_added_and_refuses_what_is_gone(client, ada, scenario_version):
    lab = Cluster.objects.create(name="lab-1", tier="dedicated", kept=True)
    Cluster.objects.create(name="old-lab", tier="dedicated", kept=True, archived=True)
    client.force_login(ada)
    page = client.get(URL + "?compose").content
    assert b"lab-1 (dedicated)" in page
    assert b"old-lab" not in page
    typed = {
        "candidate_name": "Sam",
        "scenarios": [str(scenario_version.uuid)],
        "draft": "",
        "cluster": str(lab.uuid),
    }
    assert client.post(URL, typed).status_code == 302
    session = InterviewSession.objects.get()
    assert (session.cluster, session.tier) == (lab, "dedicated")
    Cluster.objects.update(archived=True)
    assert client.post(URL, typed).status_code == 422
