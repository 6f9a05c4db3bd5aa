"""The JSON API of faults: reading, and only for those who may know."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from ninja import NinjaAPI
from ninja.testing import TestClient

from faults.api import router
from faults.models import Cluster, FaultRun, Scenario

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def api():
    api = NinjaAPI(urls_namespace="faults-test")
    api.add_router("/faults", router)
    return TestClient(router)


@pytest.fixture
def run():
    cluster = Cluster.objects.create(name="c", tier="practice", kubeconfig="sealed")
    return FaultRun.objects.create(purpose="environment", cluster=cluster, namespaces={"w": "ml"}, residue=[])


def person(**rights):
    return User.objects.create_user("someone", **rights)


def test_it_lists_the_scenarios_that_can_be_picked(api, version):
    [scenario] = [row for row in api.get("/scenarios/", user=person()).json() if row["slug"] == version.scenario.slug]
    assert scenario["uuid"] == str(version.uuid)
    Scenario.objects.update(archived=True)
    assert api.get("/scenarios/", user=User.objects.get()).json() == []


def test_runs_are_for_staff(api, run):
    assert api.get("/runs/", user=person()).status_code == 403
    assert api.get(f"/runs/{run.uuid}/", user=User.objects.get()).status_code == 403


def test_staff_read_a_run_without_its_credentials(api, run):
    admin = person(is_staff=True)
    row = api.get(f"/runs/{run.uuid}/", user=admin).json()
    assert (row["cluster"], row["status"], row["residue"]) == ("c", "planned", [])
    assert "sealed" not in str(row)
    assert [entry["uuid"] for entry in api.get("/runs/?status=planned", user=admin).json()] == [str(run.uuid)]
    assert api.get("/runs/?status=active", user=admin).json() == []


def test_an_unknown_run_is_not_found(api):
    assert api.get("/runs/00000000-0000-4000-8000-000000000000/", user=person(is_staff=True)).status_code == 404
