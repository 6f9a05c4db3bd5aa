"""Fixtures of faults: a fresh practice cluster for each test, and the seeded catalogue."""

from __future__ import annotations

import shutil
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.test import override_settings

from faults import selectors, services
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.models import Cluster, FaultRun, Outbox, Scenario, ScenarioVersion
from faults.services import ensure_practice_cluster
from faults.tests.clusters import REAL, eventually, flat
from faults.tests.variants import CATALOG, USUAL_PACKS

NAMESPACES = {"workloads": "ml-training"}
SLUG = "architecture-mismatch"


def deadline():
    return datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture
def cluster(practice, db, request):
    """A fresh practice cluster, dropped at the end. It has the images of usual packs, so nothing is pulled.

    A module whose tests need those of the first scenario alone says so with ``IMAGES = FIRST_PACK``: to describe all
    images takes longer than all else that a new cluster does.
    """
    images = getattr(request.module, "IMAGES", USUAL_PACKS)
    cluster = ensure_practice_cluster(name=f"t-{uuid.uuid4().hex[:10]}", deadline=deadline(), packs=images)
    yield cluster
    services.release_cluster(cluster=cluster)


@pytest.fixture
def real_node(db):
    """A node of paper, since the control plane has none."""
    kube = Kube(parse(flat(Path(REAL))))
    name = f"paper-{uuid.uuid4().hex[:8]}"
    kube.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    eventually(lambda: not kube.get("v1", "Node", name)["spec"].get("taints"))
    yield name
    kube.delete("v1", "Node", name)
    kube.close()


@pytest.fixture
def kube(cluster):
    """The cluster's client, with every right."""
    return selectors.kube_for(cluster)


@pytest.fixture
def environment(cluster):
    """An active environment run in the cluster."""
    run = services.plan_environment_run(cluster=cluster, namespaces=NAMESPACES, deadline=deadline())
    return services.inject_run(run_id=run.pk, holder="test")


@pytest.fixture(scope="module")
def standing(practice_host, django_db_setup, django_db_blocker):
    """An active environment run for all tests of a module that leave it as it is.

    Its rows are committed, so that a test's own transaction, which is rolled back, sees them.
    """
    with override_settings(**practice_host.settings):
        with django_db_blocker.unblock():
            name = f"s-{uuid.uuid4().hex[:10]}"
            made = ensure_practice_cluster(name=name, deadline=deadline(), packs=USUAL_PACKS)
            run = services.plan_environment_run(cluster=made, namespaces=NAMESPACES, deadline=deadline())
            run = services.inject_run(run_id=run.pk, holder="test")
        yield run
        with django_db_blocker.unblock():
            services.release_cluster(cluster=made)
            for model in (Outbox, FaultRun, Cluster):
                model.objects.all().delete()


@pytest.fixture(scope="module")
def standing_fault(standing, practice_host, django_db_blocker):
    """An active fault in the standing environment."""
    with override_settings(**practice_host.settings):
        with django_db_blocker.unblock():
            version = next(v for v in services.seed_catalog() if v.scenario.slug == SLUG)
            values = {"cluster": standing.cluster, "scenario_version": version, "namespaces": NAMESPACES}
            run = services.plan_fault_run(**values, parameters={}, seed=1, deadline=deadline())
            services.inject_run(run_id=run.pk, holder="test")
            run = services.confirm_symptom(run_id=run.pk, holder="test", timeout_s=60)
        yield run
        with django_db_blocker.unblock():
            for model in (FaultRun, ScenarioVersion, Scenario):
                model.objects.all().delete()


@pytest.fixture(scope="session")
def first_folder(tmp_path_factory):
    """A catalogue of the first scenario alone."""
    folder = tmp_path_factory.mktemp("catalogue")
    shutil.copytree(CATALOG / SLUG, folder / SLUG)
    return folder


@pytest.fixture
def version(db, first_folder):
    """The first scenario of the catalogue."""
    return services.seed_catalog(folder=first_folder)[0]


@pytest.fixture
def fault(environment, version) -> FaultRun:
    """A planned fault run in the environment, whose candidate has its rights already."""
    run = services.plan_fault_run(
        cluster=environment.cluster,
        scenario_version=version,
        namespaces=NAMESPACES,
        parameters={},
        seed=1,
        deadline=deadline(),
    )
    services.grant_rights(run=run)
    return run
