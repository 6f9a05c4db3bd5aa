"""The clock of proofs: while a command waits for the cluster's time, that time is moved on, and no further."""

from __future__ import annotations

import uuid
from time import monotonic

import pytest

from faults import practice as practice_clusters
from faults import selectors, services
from faults.catalog_check.cluster_clock import ClusterClock
from faults.engine.model import CommandLimits
from faults.tests.conftest import deadline
from faults.tests.variants import PACKS

pytestmark = pytest.mark.django_db
LIMITS = CommandLimits(seconds=60.0, output_bytes=1024)
EXPORTER = "nvidia-dcgm-exporter"
SLEEP_S, COMPUTING_S = 600, 30
"""Of the cluster's time; of the machine's, which is long for what takes a tenth of a second."""


@pytest.fixture
def cluster(practice):
    name = f"t-{uuid.uuid4().hex[:10]}"
    made = services.ensure_practice_cluster(name=name, deadline=deadline(), packs=PACKS[:1], skips=True)
    yield made
    services.release_cluster(cluster=made)


def seconds_of(cluster, *command):
    clock, kube = ClusterClock(cluster.name), selectors.kube_for(cluster)
    pod = next(pod for pod in kube.list("v1", "Pod", "gpu-operator") if EXPORTER in pod["metadata"]["name"])
    began = clock.now()
    with clock.passing():
        kube.run_command("gpu-operator", pod["metadata"]["name"], EXPORTER, command, LIMITS)
    return (clock.now() - began).total_seconds()


def test_a_command_that_waits_takes_the_clusters_time_and_not_the_machines(cluster):
    began = monotonic()
    assert seconds_of(cluster, "sleep", str(SLEEP_S)) == pytest.approx(SLEEP_S, abs=COMPUTING_S)
    assert monotonic() - began < COMPUTING_S


def test_without_a_command_no_time_passes(cluster):
    assert practice_clusters.skip(cluster.name, 100, commands=True) == 0
    assert practice_clusters.skip(cluster.name, 100) > 100 - COMPUTING_S
