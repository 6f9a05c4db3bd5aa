"""The work that a pod makes from its creation until it runs, in calls of functions: no clock has a say in it."""

import sys
from datetime import UTC, datetime

import pytest

from kubesim.api.options import Options
from kubesim.clock import ManualClock
from kubesim.cluster import Cluster, ClusterSpec
from kubesim.pki import CertificateAuthority

PODS, MOST_CALLS = 30, 11_600
POD = {"metadata": {"generateName": "one-"}, "spec": {"containers": [{"name": "main", "image": "nginx:1.27"}]}}


@pytest.fixture
async def cluster(tmp_path):
    clock = ManualClock(datetime.now(UTC))
    authority = CertificateAuthority.at(tmp_path, clock.now())
    cluster = await Cluster.create(ClusterSpec("a", clock.now(), gpus=0), clock, "https://127.0.0.1:1", authority)
    await clock.advance(2)
    yield cluster
    await cluster.stop()


async def running(cluster: Cluster, number: int) -> None:
    """Create pods and wait until they run."""
    kind = cluster.operations.registry.by_resource("pods")
    for _ in range(number):
        cluster.operations.create(kind, "default", POD, options=Options(user="kubernetes-admin"))
    await cluster.clock.advance(3)
    assert {pod["status"]["phase"] for pod in cluster.store.list(kind)} == {"Running"}


async def test_a_pod_costs_few_calls_from_its_creation_until_it_runs(cluster):
    calls = 0

    def count(frame: object, event: str, what: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    await running(cluster, 3)  # what is computed once
    sys.setprofile(count)
    try:
        await running(cluster, PODS)
    finally:
        sys.setprofile(None)
    assert calls / PODS < MOST_CALLS
