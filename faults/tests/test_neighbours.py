"""Runs in one cluster that share objects: whichever ends first, the last one leaves everything as it was."""

from __future__ import annotations

from itertools import permutations

import pytest

from faults import services
from faults.clock import RealClock
from faults.engine import compare, fingerprint
from faults.engine.fields import hand_on
from faults.errors import Unreachable
from faults.journal import to_record
from faults.models import FaultRun, Step
from faults.services.neighbours import RunNeighbours
from faults.tests.conftest import NAMESPACES, deadline
from torture import packs

pytestmark = pytest.mark.django_db


@pytest.fixture
def runs(environment, kube, tmp_path):
    """Three injected faults: two change one label of one node, one changes a ClusterRole and a Namespace."""
    packs.write(tmp_path, kube.list("v1", "Node")[0]["metadata"]["name"])
    return [plan(environment, version) for version in services.seed_catalog(folder=tmp_path)]


def plan(environment, version):
    run = services.plan_fault_run(
        cluster=environment.cluster,
        scenario_version=version,
        namespaces=NAMESPACES,
        parameters={},
        seed=1,
        deadline=deadline(),
    )
    services.grant_rights(run=run)  # they stay with the environment
    return run


def test_no_order_of_ending_leaves_anything(runs, kube):
    before = fingerprint(kube, list(NAMESPACES.values()))
    for order in permutations(range(len(runs))):
        FaultRun.objects.filter(pk__in=[run.pk for run in runs]).update(
            status=FaultRun.Status.PLANNED, injected_at=None, fingerprint_before=None
        )
        Step.objects.filter(run__in=runs).delete()
        for run in runs:
            services.inject_run(run_id=run.pk, holder="w")
        for index in order:
            reverted = services.revert_run(run_id=runs[index].pk, holder="w")
            assert (reverted.status, reverted.residue) == ("reverted", []), order
        after = fingerprint(kube, list(NAMESPACES.values()))
        assert compare(before, after) == [], order


@pytest.fixture
def every_kind(environment, kube, tmp_path):
    """Two injected faults with steps of every kind, on the same node, namespace, account and ClusterRoles."""
    packs.write_kinds(tmp_path, kube.list("v1", "Node")[0]["metadata"]["name"])
    versions = {version.scenario.slug: version for version in services.seed_catalog(folder=tmp_path)}
    return [plan(environment, versions[slug]) for slug in ("kinds-first", "kinds-second")]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["the first ends first", "the last ends first"])
def test_two_faults_of_every_kind_on_the_same_objects_leave_nothing(every_kind, kube, order):
    spaces = [*NAMESPACES.values(), "kube-public"]
    before = fingerprint(kube, spaces)
    for run in every_kind:
        inject(run)
    node = kube.list("v1", "Node")[0]
    keys = [taint["key"].removeprefix("node.example.com/") for taint in node["spec"]["taints"]]
    assert keys == ["first", "second"]
    assert len(compare(before, fingerprint(kube, spaces))) >= 6
    for index in order:
        reverted = services.revert_run(run_id=every_kind[index].pk, holder="w")
        assert (reverted.status, reverted.residue) == ("reverted", [])
    assert compare(before, fingerprint(kube, spaces)) == []


def inject(run):
    """Inject, again where a program that is called has not started yet."""
    for _ in range(200):
        try:
            return services.inject_run(run_id=run.pk, holder="w")
        except Unreachable:
            RealClock().wait(0.05)
    raise AssertionError("the program never answered")


def test_an_object_that_another_run_has_is_kept_until_that_one_ends(environment):
    step = environment.steps.get(target__kind="ClusterRole")
    twin = FaultRun.objects.create(
        purpose=FaultRun.Purpose.ENVIRONMENT, cluster=environment.cluster, namespaces={"workloads": "other"}
    )
    neighbours = RunNeighbours(twin)
    record = to_record(step)
    assert neighbours.have(record)
    environment.status = FaultRun.Status.REVERTING
    environment.save()
    assert not neighbours.have(record)


def test_a_newer_change_inherits_what_was_there_before_the_older_one():
    older = {"path": ["a", "b"], "prune": 0, "after": "1"}
    newer = {"path": ["a", "b"], "prune": 2, "before": "1", "after": "2"}
    assert hand_on([older], [newer]) == ([], [{"path": ["a", "b"], "prune": 0, "after": "2"}])
    other = {**newer, "before": "somebody else's"}
    assert hand_on([older], [other]) == ([older], [other])
