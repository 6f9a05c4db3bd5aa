from __future__ import annotations

import pytest
import yaml
from django.utils import timezone

from faults import crypto, packs
from faults import services as fault_services
from faults.kube.config import render
from faults.models import Cluster
from sessions import part_minutes, services
from sessions.errors import SessionError
from sessions.models import InterviewSession, Plan, PlanVersion

URL = "/sessions/new/"
NODE_RIGHT = {"resources": ["nodes"], "verbs": ["get", "patch"]}
NODE_PATCH = {
    "kind": "patch",
    "target": {"apiVersion": "v1", "kind": "Node", "name": "gpu-node-1"},
    "patch": {"metadata": {"labels": {"broken": "yes"}}},
}


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


def test_the_form_begins_with_the_plans_choice_for_pauses_and_keeps_ones_own(client, ada, plan):
    PlanVersion.objects.update(close_while_paused=True)
    client.force_login(ada)
    assert 'id="id_close_while_paused" checked' in client.get(URL, {"plan": plan.uuid}).content.decode()
    client.post(URL, {"plan": plan.uuid, "candidate_name": "Sam", "draft": "", "close_while_paused": "on"})
    client.post(URL, {"plan": plan.uuid, "candidate_name": "Kim", "draft": ""})
    chosen = InterviewSession.objects.values_list("candidate_name", "close_while_paused")
    assert dict(chosen) == {"Sam": True, "Kim": False}


def test_the_form_lists_the_rights_of_the_plans_scenarios(client, ada, plan):
    client.force_login(ada)
    text = client.get(URL, {"plan": plan.uuid}).content.decode()
    assert "create, update, patch, delete jobs.batch in ml-training" in text.split('id="rights"')[1]


@pytest.fixture
def cuttable(plan):
    """A plan of 30 minutes with two cuts."""
    PlanVersion.objects.update(cuts=[{"minutes": 25, "parts": [18, 7]}, {"minutes": 20, "parts": [20, None]}])
    return plan


def test_the_form_says_how_long_the_plan_is_and_offers_its_cuts(client, ada, cuttable):
    client.force_login(ada)
    text = client.get(URL, {"plan": cuttable.uuid}).content.decode()
    assert "The parts take 30 minutes in all." in text
    offered = " ".join(text.split('id="cut"')[1].split("</fieldset>")[0].split())
    assert 'value="25"' in offered
    assert '25 minutes<span class="small muted">: Repair 18, Talk 7</span>' in offered
    assert '20 minutes<span class="small muted">: Repair 20</span>' in offered
    assert "30 minutes in full; shorter: 25, 20" in client.get(URL).content.decode()


@pytest.mark.parametrize(
    ("cut", "minutes", "parts"),
    [
        ("", 30, {"Repair": 20, "Talk": 10}),
        ("25", 25, {"Repair": 18, "Talk": 7}),
        ("20", 20, {"Repair": 20}),
    ],
)
def test_a_cut_decides_the_parts_and_their_minutes(client, ada, cuttable, cut, minutes, parts):
    client.force_login(ada)
    values = {"plan": cuttable.uuid, "candidate_name": "Sam", "minutes": "", "draft": ""}
    assert client.post(URL, {**values, "cut": cut}).status_code == 302
    session = InterviewSession.objects.get()
    assert session.minutes == minutes
    assert {part["title"]: part["minutes"] for part in session.parts} == parts
    assert session.questions.count() == ("Talk" in parts)


def test_other_minutes_than_those_of_the_cut_may_be_typed(client, ada, cuttable):
    client.force_login(ada)
    values = {"plan": cuttable.uuid, "candidate_name": "Sam", "minutes": "40", "draft": ""}
    client.post(URL, {**values, "cut": "25"})
    assert InterviewSession.objects.get().minutes == 40


def test_a_cut_that_the_plan_does_not_have_is_refused(client, ada, cuttable):
    client.force_login(ada)
    response = client.post(URL, {"plan": cuttable.uuid, "candidate_name": "Sam", "cut": "45", "draft": ""})
    assert response.status_code == 422
    assert not InterviewSession.objects.exists()
    with pytest.raises(SessionError, match="no cut of 45 minutes"):
        services.create_session(owner=ada, candidate_name="Sam", plan_version=cuttable, cut=45)


def test_a_draft_is_not_prepared(client, ada, plan, jobs):
    client.force_login(ada)
    client.post(URL, {"plan": plan.uuid, "candidate_name": "Sam Doe", "draft": ""})
    assert InterviewSession.objects.get().state == "draft"
    assert jobs() == []


def test_an_outline_of_several_parts_can_be_composed(client, ada, grace, scenario_version, question_version):
    client.force_login(ada)
    rows = ["part:a", "s:architecture-mismatch", "part:b", f"q:{question_version.question.uuid}", "part:c"]
    parts = {"row": rows, "title-a": "Repair", "minutes-a": "30", "title-c": "Tour", "minutes-c": "10"}
    spoken = {"tasks-c": "Show the nodes.", "criteria-c": "Labels\r\nDrivers\r\n"}
    picks = {**parts, **spoken, "interviewers": [grace.pk]}
    client.post(URL, {"candidate_name": "Sam Doe", "draft": "", **picks})
    session = InterviewSession.objects.get()
    assert [(part["title"], part["minutes"]) for part in session.parts] == [
        ("Repair", 30),
        ("Part 2", 5),
        ("Tour", 10),
    ]
    assert session.parts[2]["criteria"] == ["Labels", "Drivers"]
    assert session.minutes == 45
    assert (session.scenarios.get().part, session.questions.get().part) == (0, 1)
    assert set(session.interviewers.all()) == {ada, grace}


def test_a_button_of_the_builder_changes_the_outline_and_creates_nothing(client, ada, scenario_version):
    client.force_login(ada)
    typed = {"candidate_name": "Sam Doe", "title": "Mine", "row": ["part:a"], "title-a": "Repair"}
    response = client.post(f"{URL}?compose", {**typed, "do": "add:s:architecture-mismatch"})
    page = response.content.decode()
    assert response.status_code == 200
    assert 'name="row" value="s:architecture-mismatch"' in page
    assert 'value="Sam Doe"' in page
    assert 'value="Repair"' in page
    assert "was added to part 1. 20 minutes in all." in page
    assert 'class="error"' not in page
    assert not InterviewSession.objects.exists()


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


def test_picking_nothing_is_told(client, ada, scenario_version):
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


@pytest.mark.parametrize("cluster", ["not-a-uuid", "00000000-0000-4000-8000-000000000000"])
def test_an_unknown_cluster_is_named_where_the_page_offers_none(client, ada, plan, cluster):
    client.force_login(ada)
    response = client.post(URL, {"plan": plan.uuid, "candidate_name": "Sam", "cluster": cluster, "draft": ""})
    assert response.status_code == 422
    text = response.content.decode()
    assert "This cluster is not offered any more." in text
    assert "Correct the marked fields" not in text
    assert not InterviewSession.objects.exists()


def test_it_offers_clusters_that_an_admin_added_and_refuses_what_is_gone(client, ada, scenario_version):
    lab = Cluster.objects.create(name="lab-1", tier="dedicated", kept=True)
    Cluster.objects.create(name="old-lab", tier="dedicated", kept=True, archived=True)
    client.force_login(ada)
    page = client.get(URL + "?compose").content
    assert b"lab-1 (dedicated)" in page
    assert b"old-lab" not in page
    typed = {
        "candidate_name": "Sam",
        "row": ["part:a", f"s:{scenario_version.scenario.slug}"],
        "draft": "",
        "cluster": str(lab.uuid),
    }
    assert client.post(URL, typed).status_code == 302
    session = InterviewSession.objects.get()
    assert (session.cluster, session.tier) == (lab, "dedicated")
    Cluster.objects.update(archived=True)
    assert client.post(URL, typed).status_code == 422


@pytest.fixture
def lab(db) -> Cluster:
    return Cluster.objects.create(name="lab-1", tier="dedicated", kept=True)


@pytest.fixture
def post(client, ada, scenario_version):
    """Send the form, with a cluster; return the answer."""
    client.force_login(ada)

    def send(cluster, **fields):
        typed = {
            "candidate_name": "Sam",
            "row": ["part:a", f"s:{scenario_version.scenario.slug}"],
            "cluster": str(cluster.uuid),
            "prepare": "",
        }
        return client.post(URL, typed | fields)

    return send


def refusal(response) -> str:
    """Return what stands at the cluster, where nothing was created."""
    assert response.status_code == 422
    assert 'id="id_cluster_error"' in response.content.decode()
    return response.context["form"].errors["cluster"][0]


@pytest.fixture
def held(lab, ready) -> InterviewSession:
    """Another session, which has the laboratory until 13:30."""
    fault_services.lease_cluster(cluster=sealed(lab), holder=ready.uuid)
    ready.cluster, ready.tier = lab, "dedicated"
    ready.save()
    return ready


def sealed(cluster: Cluster) -> Cluster:
    """Give a cluster a kubeconfig that nobody answers to."""
    ca = "-----BEGIN CERTIFICATE-----"
    text = render(server="https://127.0.0.1:9", ca_pem=ca, token="t", namespace="", user="u")
    cluster.kubeconfig = crypto.seal(text)
    cluster.save()
    return cluster


@pytest.mark.parametrize("button", ["prepare", "draft"])
def test_a_dedicated_cluster_in_use_is_refused_with_who_has_it_and_until_when(post, lab, held, button):
    why = refusal(post(lab, **{button: ""}))
    assert why == f"ada’s session “{held.title}” has the cluster lab-1 until 13:30 at the latest. " + (
        "Choose another cluster, or wait."
    )
    assert list(InterviewSession.objects.all()) == [held]


def test_a_title_that_is_not_ones_own_is_not_told(client, post, mallory, lab, held):
    client.force_login(mallory)
    assert refusal(post(lab)).startswith("A session of ada has the cluster lab-1 until 13:30")


def test_a_draft_for_later_may_name_a_cluster_in_use_and_is_prepared_when_it_is_free(post, lab, held, ada):
    assert post(lab, draft="", prepare="", scheduled_at="2026-05-05T12:00").status_code == 302
    draft = InterviewSession.objects.get(scheduled_at__isnull=False)
    with pytest.raises(services.SessionError, match="has the cluster lab-1 until"):
        services.prepare(session=draft, actor=ada)
    fault_services.give_back_cluster(cluster=lab, holder=held.uuid)
    assert services.prepare(session=draft, actor=ada).state == "preparing"


def test_what_cannot_be_prepared_now_is_not_created(post, lab, held):
    typed = {"scheduled_at": "2026-05-05T12:00"}
    assert "has the cluster lab-1" in refusal(post(lab, **typed))
    assert InterviewSession.objects.count() == 1


def test_a_cluster_whose_last_preflight_failed_is_refused_with_its_reason(post, lab):
    Cluster.objects.update(preflight_at=timezone.now(), preflight_error="Permissions: Missing: create namespaces")
    assert "failed" in (why := refusal(post(lab)))
    assert "Permissions: Missing: create namespaces. Choose another cluster" in why
    assert not InterviewSession.objects.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rights": ["privileged-pods"]}, "it asks for privileged-pods, which nobody gets there"),
        ({"rights": [NODE_RIGHT]}, "it asks for patch nodes (it reaches every session of the cluster), which nobody"),
        ({"inject": [NODE_PATCH]}, "it changes Node gpu-node-1, which belongs to everybody there"),
        ({}, "is not made for shared clusters; its pack names practice and dedicated"),
    ],
)
def test_a_shared_cluster_refuses_what_would_meet_others(post, lab, scenario_version, change, words):
    Cluster.objects.update(tier="shared")
    document = yaml.safe_load(scenario_version.files["scenario.yaml"])
    inject = document["inject"] + change.get("inject", [])
    document |= change | {"inject": inject}
    document["requires"]["tiers"] = ["practice", "dedicated"]
    text = yaml.safe_dump(document, sort_keys=False)
    scenario_version.files = scenario_version.files | {"scenario.yaml": text}
    scenario_version.digest = packs.digest(scenario_version.files)
    scenario_version.save()
    assert words in refusal(post(lab))
    assert not InterviewSession.objects.exists()


def test_an_engaged_panic_stop_is_told_and_nothing_is_created(client, ada, plan):
    services.engage_panic(cluster=None, actor=ada)
    client.force_login(ada)
    response = client.post(URL, {"plan": plan.uuid, "candidate_name": "Sam Doe", "prepare": ""})
    assert response.status_code == 422
    assert "engaged the panic stop" in response.content.decode()
    assert not InterviewSession.objects.exists()
