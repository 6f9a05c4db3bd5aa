"""Scenarios that cannot be in one interview, or on a cluster: told by the forms before anything is created."""

from __future__ import annotations

import json

import pytest
import yaml

from faults import packs
from faults.inventory import Inventory, NodeKind
from faults.models import Cluster, Scenario, ScenarioVersion
from sessions import services
from sessions.errors import SessionError
from sessions.models import InterviewSession, Plan

HTMX = {"HX-Request": "true"}
FIRST, SECOND, THIRD = "s:architecture-mismatch", "s:again", "s:large"
CLASH = "both create Deployment embedding-api in the namespace ml-training"
ROWS = {"row": ["part:a", FIRST, "part:b", SECOND], "title": "Both"}


@pytest.fixture
def version(db, pack_files):
    """Store a pack like the first, under another name, with other requirements."""

    def store(slug, requires=None, namespace="ml-training"):
        document = yaml.safe_load(pack_files["scenario.yaml"]) | {"slug": slug, "title": f"The {slug} one"}
        document["namespaces"] = {"workloads": namespace}
        document["requires"] |= {"tiers": ["practice", "dedicated"], **(requires or {})}
        files = pack_files | {"scenario.yaml": json.dumps(document)}
        scenario = Scenario.objects.create(slug=slug)
        own = {"title": document["title"], "category": "C", "difficulty": "easy", "minutes": 10}
        return ScenarioVersion.objects.create(
            scenario=scenario, number=1, digest=packs.digest(files), files=files, **own
        )

    return store


@pytest.fixture
def both(scenario_version, version):
    return [scenario_version, version("again")]


@pytest.fixture
def signed_in(client, root):
    client.force_login(root)
    return client


@pytest.fixture
def lab(db):
    """A dedicated cluster whose preflight has found two nodes of one GPU."""
    nodes = Inventory([NodeKind(1, {"nvidia.com/gpu.product": "Tesla-T4"}, count=2)])
    return Cluster.objects.create(name="lab-1", tier="dedicated", kept=True, inventory=nodes.dump())


def test_the_plan_form_says_which_scenarios_meet_and_where(signed_in, both):
    response = signed_in.post("/plans/new/", {**ROWS, "save": ""})
    assert response.status_code == 422
    text = response.content.decode()
    assert CLASH in text
    assert f"“{both[0].title}” and “The again one” cannot be in one interview" in text
    assert not Plan.objects.exists()


@pytest.mark.parametrize("address", ["/plans/new/", "/sessions/new/?compose"])
def test_the_builder_says_so_as_soon_as_the_second_is_chosen(signed_in, both, address):
    rows = {"row": ["part:a", FIRST], "target": "a"}
    alone = signed_in.post(address, {**rows, "do": "refresh"}, headers=HTMX)
    assert CLASH not in alone.content.decode()
    added = signed_in.post(address, {**rows, "do": f"add:{SECOND}"}, headers=HTMX)
    assert CLASH in added.content.decode()
    dropped = signed_in.post(address, {**ROWS, "do": f"drop:{SECOND}"}, headers=HTMX)
    assert CLASH not in dropped.content.decode()


def test_the_session_form_says_so_and_nothing_is_created(signed_in, both):
    response = signed_in.post("/sessions/new/?compose", {**ROWS, "candidate_name": "Sam Doe"})
    assert response.status_code == 422
    assert CLASH in response.content.decode()
    assert not InterviewSession.objects.exists()


def test_a_session_of_picked_scenarios_is_refused_as_well(ada, both):
    with pytest.raises(SessionError, match=CLASH) as refused:
        services.create_session(owner=ada, candidate_name="Sam Doe", scenario_versions=both)
    assert refused.value.field == "scenarios"


def test_scenarios_that_no_cluster_can_have_together_are_refused_in_a_plan(signed_in, scenario_version, version):
    version("again", {"max-gpus": 8}, "one")
    version("large", {"pools": [{"name": "large", "count": 1, "gpus": 16}]}, "two")
    response = signed_in.post("/plans/new/", {"row": ["part:a", SECOND, THIRD], "title": "Both", "save": ""})
    assert response.status_code == 422
    assert "“The again one” and “The large one” cannot share a cluster" in response.content.decode()


@pytest.fixture
def large(version):
    return version("large", {"nodes": 1, "gpus": 8})


def test_a_cluster_that_lacks_something_is_told_before_a_session_is_created(signed_in, lab, large):
    rows = {"row": ["part:a", THIRD], "candidate_name": "Sam Doe", "cluster": str(lab.uuid)}
    response = signed_in.post("/sessions/new/?compose", rows)
    assert response.status_code == 422
    text = response.content.decode()
    assert "“The large one” needs 1 node with at least 8 GPUs; there are none in the cluster lab-1." in text
    assert "Choose another cluster, or run its preflight again if it has changed." in text
    assert not InterviewSession.objects.exists()


def test_a_draft_is_not_prepared_on_a_cluster_that_has_lost_a_node_since(ada, lab, scenario_version):
    draft = services.create_session(
        owner=ada, candidate_name="Sam Doe", scenario_versions=[scenario_version], cluster=lab
    )
    Cluster.objects.update(inventory=Inventory([]).dump())
    with pytest.raises(SessionError, match="needs 1 node with at least 1 GPU; there are none in the cluster lab-1"):
        services.prepare(session=draft, actor=ada)
    assert InterviewSession.objects.get().state == "draft"


def test_a_cluster_without_a_preflight_is_not_judged(ada, lab, large):
    lab.inventory = None
    lab.save()
    assert services.create_session(owner=ada, candidate_name="Sam Doe", scenario_versions=[large], cluster=lab)
