"""Runs in one cluster that share objects: whichever ends first, the last one leaves everything as it was."""

from __future__ import annotations

import uuid
from itertools import combinations, permutations

import pytest

from faults import services
from faults.catalog_check.cluster_clock import ClusterClock
from faults.clashes import clash
from faults.clock import RealClock
from faults.engine import compare, fingerprint
from faults.engine.fields import hand_on
from faults.errors import Unreachable
from faults.journal import to_record
from faults.models import FaultRun, Step
from faults.services.neighbours import RunNeighbours
from faults.tests.conftest import NAMESPACES, deadline
from faults.tests.variants import PACKS
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


def pairs():
    """Every two scenarios that may share an interview, in either order of ending; all but one are for torture."""
    faults = [pack for pack in PACKS if pack.symptom]
    found = [(two, order) for two in combinations(faults, 2) if not clash(two) for order in ((0, 1), (1, 0))]
    for number, (two, order) in enumerate(found):
        name = f"{two[order[0]].slug}-ends-before-{two[order[1]].slug}"
        yield pytest.param(two, order, id=name, marks=pytest.mark.torture if number else ())


@pytest.mark.parametrize(("two", "order"), list(pairs()))
def test_two_scenarios_of_a_session_in_one_namespace_leave_nothing(two, order, practice, db):
    name, home = f"n-{uuid.uuid4().hex[:10]}", NAMESPACES["workloads"]
    cluster = services.ensure_practice_cluster(name=name, deadline=deadline(), packs=two, skips=True)
    clock, versions = ClusterClock(name), {row.scenario.slug: row for row in services.seed_catalog()}
    environment = services.plan_environment_run(
        cluster=cluster, namespaces=NAMESPACES, deadline=deadline(), packs=two
    )
    environment, runs = services.inject_run(run_id=environment.pk, holder="w"), []
    for pack in two:
        values = {"cluster": cluster, "scenario_version": versions[pack.slug], "parameters": {}, "seed": 1}
        names = dict.fromkeys(pack.namespaces, home)
        runs.append(services.plan_fault_run(**values, namespaces=names, deadline=deadline()))
        services.grant_rights(run=runs[-1])
        services.inject_run(run_id=runs[-1].pk, holder="w")
    for run in runs:
        shown = services.confirm_symptom(run_id=run.pk, holder="w", clock=clock, timeout_s=120)
        assert (shown.status, shown.error) == ("active", "")
    for run in (*(runs[index] for index in order), environment):
        reverted = services.revert_run(run_id=run.pk, holder="w", wait=clock.wait)
        assert (reverted.status, reverted.residue) == ("reverted", [])
    services.release_cluster(cluster=cluster)


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
