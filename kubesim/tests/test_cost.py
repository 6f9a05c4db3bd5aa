"""The work that clusters and pods make, in calls of functions: no clock has a say in it."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from kubesim import seed
from kubesim.api.options import Options
from kubesim.clock import ManualClock
from kubesim.cluster import Cluster, ClusterSpec
from kubesim.pki import CertificateAuthority
from kubesim.times import stamp

PODS, MOST_CALLS_OF_A_POD, MOST_CALLS_OF_A_CLUSTER = 30, 11_600, 80_000
POD = {"metadata": {"generateName": "one-"}, "spec": {"containers": [{"name": "main", "image": "nginx:1.27"}]}}
OWN = re.compile(rb'"(?:uid|resourceVersion|creationTimestamp|time|lastTransitionTime|since|generation)":"?[^",}]*')
TIME = re.compile(rb"20[0-9-]+T[0-9:]+Z")
START = datetime(2026, 1, 31, 23, 59, 58, tzinfo=UTC)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return CertificateAuthority.at(tmp_path_factory.mktemp("ca"), START)


class TickingClock(ManualClock):
    """Time that moves on by 50 ms whenever somebody asks for it."""

    def now(self) -> datetime:
        self._now += timedelta(milliseconds=50)
        return self._now


async def made(authority: CertificateAuthority, clock: ManualClock) -> Cluster:
    return await Cluster.create(ClusterSpec("a", clock.now(), gpus=0), clock, "https://127.0.0.1:1", authority)


async def running(cluster: Cluster, number: int) -> None:
    """Create pods and wait until they run."""
    kind = cluster.operations.registry.by_resource("pods")
    for _ in range(number):
        cluster.operations.create(kind, "default", POD, options=Options(user="kubernetes-admin"))
    await cluster.clock.advance(3)
    assert {pod["status"]["phase"] for pod in cluster.store.list(kind)} == {"Running"}


@contextmanager
def counted() -> Iterator[list[int]]:
    """Yield the number of calls, in a list, that a block makes."""
    calls = [0]

    def count(frame: object, event: str, what: object) -> None:
        calls[0] += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def test_a_pod_costs_few_calls_from_its_creation_until_it_runs(authority):
    clock = ManualClock(START)
    cluster = await made(authority, clock)
    await clock.advance(2)
    await running(cluster, 3)  # what is computed once
    with counted() as calls:
        await running(cluster, PODS)
    assert calls[0] / PODS < MOST_CALLS_OF_A_POD
    await cluster.stop()


async def test_a_later_cluster_has_what_the_first_has_with_times_and_identifiers_of_its_own_at_little_cost(authority):
    first = await made(authority, ManualClock(START))
    with counted() as calls:
        second = await made(authority, ManualClock(START + timedelta(days=1)))
    assert calls[0] < MOST_CALLS_OF_A_CLUSTER
    for table in ("clusterroles.rbac.authorization.k8s.io", "apiservices.apiregistration.k8s.io", "configmaps"):
        one, other = (
            [obj.raw for obj in cluster.store.list(cluster.operations.registry.by_resource(table))]
            for cluster in (first, second)
        )
        assert [OWN.sub(b"", raw) for raw in one] == [OWN.sub(b"", raw) for raw in other]
        assert set(one).isdisjoint(other)
        today, yesterday = ((START + timedelta(days=days)).date().isoformat().encode() for days in (1, 0))
        assert not [raw for raw in other if yesterday in raw or today not in raw]
    for cluster in (first, second):
        await cluster.stop()


async def test_a_later_cluster_has_times_of_its_own_even_if_seconds_passed_while_the_first_was_planted(
    authority, monkeypatch
):
    monkeypatch.setattr(seed, "_planted", [])
    first, second = await made(authority, TickingClock(START)), await made(authority, ManualClock(START))
    kind = second.operations.registry.by_resource("apiservices.apiregistration.k8s.io")
    assert {time for obj in first.store.list(kind) for time in TIME.findall(obj.raw)} != {stamp(START).encode()}
    assert {time for obj in second.store.list(kind) for time in TIME.findall(obj.raw)} == {stamp(START).encode()}
    for cluster in (first, second):
        await cluster.stop()
