"""Fixtures of the fault injection API: one cluster with node agents, a program with a token, and a fault."""

from __future__ import annotations

import uuid

import pytest
from django.test import override_settings

from faults import practice, selectors
from faults.models import Cluster
from faults.services.api_tokens import INJECT, READ
from faults.tests.clusters import eventually
from faults.tests.injection import NODE, XID79, Program, agents_run, make_cluster, token


@pytest.fixture(scope="package")
def host_cluster(practice_host, django_db_setup, django_db_blocker):
    """A cluster's name, for all tests of the folder; each test has a row of its own for it."""
    name = f"i-{uuid.uuid4().hex[:10]}"
    with override_settings(**practice_host.settings), django_db_blocker.unblock():
        cluster = make_cluster(name)
        kube = selectors.kube_for(cluster)
        eventually(lambda: agents_run(kube))
        sealed = cluster.kubeconfig
        cluster.delete()
        yield name, sealed
        practice.drop(name)


@pytest.fixture
def cluster(host_cluster, practice):
    """The row of the cluster."""
    name, sealed = host_cluster
    return Cluster.objects.create(name=name, tier="practice", kubeconfig=sealed)


@pytest.fixture
def kube(cluster):
    return selectors.kube_for(cluster)


@pytest.fixture
def program(cluster):
    """A program that may read and inject."""
    return Program(token(cluster, READ, INJECT))


@pytest.fixture
def fault(program, kube):
    """An injected Xid 79, recovered at the end."""
    status, body = program.send("POST", XID79, {"node_name": NODE, "xid_type": 79, "gpu_id": 0})
    assert status == 200, body
    yield body
    program.send("DELETE", f"/api/v1/faults/{body['fault_id']}")
