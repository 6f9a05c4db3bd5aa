"""The admin of scenarios: everything of a pack can be read, nothing of the engine can be changed."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from faults import services
from faults.models import Cluster, FaultRun, Scenario

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(client):
    user = User.objects.create_superuser("root")
    client.force_login(user)
    return user


@pytest.fixture
def version(db):
    return next(version for version in services.seed_catalog() if version.scenario.slug == "architecture-mismatch")


def listing(client, model, **query):
    return client.get(reverse(f"admin:faults_{model}_changelist"), query)


def page(client, row):
    return client.get(reverse(f"admin:faults_{row._meta.model_name}_change", args=[row.pk]))


def test_it_needs_an_admin(client, version):
    client.force_login(User.objects.create_user("ada"))
    assert listing(client, "scenario").status_code == 302


def test_the_list_shows_the_newest_version_and_can_be_searched_and_filtered(client, root, version):
    assert version.title in listing(client, "scenario").content.decode()
    assert version.title in listing(client, "scenario", q=version.title.split()[-1]).content.decode()
    assert "0 scenarios" in listing(client, "scenario", q="no such thing").content.decode()
    assert version.title in listing(client, "scenario", category=version.category).content.decode()
    assert "0 scenarios" in listing(client, "scenario", archived__exact="1").content.decode()


def test_the_list_takes_no_query_for_each_row(client, root, version, django_assert_num_queries):
    def queries():
        with django_assert_num_queries(9) as counted:
            listing(client, "scenario")
        return len(counted)

    before = queries()
    for number in range(5):
        copy = Scenario.objects.create(slug=f"copy-{number}")
        fields = {name: getattr(version, name) for name in ("files", "title", "category", "difficulty", "minutes")}
        copy.versions.create(number=1, digest=str(number), **fields)
    assert queries() == before


def test_a_scenario_shows_statement_brief_rubric_hints_and_all_versions(client, root, version):
    scenario = version.scenario
    files = {**version.files, "statement.md": "# New\n\n<script>alert(1)</script>"}
    newer = scenario.versions.create(
        number=version.number + 1, digest="2", files=files, title="Newer", category="c", difficulty="easy", minutes=5
    )
    html = page(client, scenario).content.decode()

    assert "<h1>New</h1>" in html
    assert "<script>alert(1)" not in html
    assert "Outstanding" in html
    assert "Tier 2" in html
    assert "container <code>trainer</code>" in html
    for row in (version, newer):
        assert reverse("admin:faults_scenarioversion_change", args=[row.pk]) in html


def test_an_older_version_can_be_read_with_its_files(client, root, version):
    html = page(client, version).content.decode()
    assert "statement.md" in html
    assert version.digest in html


def test_a_pack_that_cannot_be_read_says_why(client, root, version):
    version.scenario.versions.create(
        number=version.number + 1, digest="2", files={}, title="Broken", category="c", difficulty="easy", minutes=5
    )
    response = page(client, version.scenario)
    assert response.status_code == 200
    assert "cannot be read" in response.content.decode()


def test_a_scenario_can_be_archived_and_nothing_else(client, root, version):
    scenario = version.scenario
    url = reverse("admin:faults_scenario_change", args=[scenario.pk])
    client.post(url, {"archived": "on", "slug": "other"})

    scenario.refresh_from_db()
    assert scenario.archived
    assert scenario.slug != "other"
    assert client.get(reverse("admin:faults_scenario_add")).status_code == 403
    assert client.post(reverse("admin:faults_scenario_delete", args=[scenario.pk])).status_code == 403


def test_what_the_engine_keeps_is_read_only_and_shows_no_kubeconfig(client, root, version):
    cluster = Cluster.objects.create(name="gpu-1", tier="practice", kubeconfig="SECRET")
    run = FaultRun.objects.create(cluster=cluster, scenario_version=version)
    run.steps.create(index=0, kind="manifest", target={"kind": "Job"}, undo={"secret": "UNDO"})

    for row in (cluster, run):
        html = page(client, row).content.decode()
        assert "gpu-1" in html
        assert "SECRET" not in html
        assert "UNDO" not in html
        assert 'name="_save"' not in html
    for model in ("cluster", "faultrun", "outbox"):
        assert listing(client, model).status_code == 200
