"""An environment as it was made: its cluster, its kubeconfig, its candidate's rights. All tests leave it as it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from faults import checks, selectors, services
from faults.errors import Forbidden, LeaseHeld
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.kube.mirror import NAMESPACE
from faults.models import FaultRun
from faults.tests.conftest import deadline

pytestmark = pytest.mark.django_db
Status = FaultRun.Status
HOME = "ml-training"


@pytest.fixture
def environment(standing, practice):
    return standing


@pytest.fixture
def cluster(environment):
    return environment.cluster


def test_a_practice_cluster_is_made_once(cluster):
    again = services.ensure_practice_cluster(name=cluster.name, deadline=deadline())
    assert again.pk == cluster.pk
    assert again.kubeconfig == cluster.kubeconfig


def test_a_practice_cluster_has_what_a_gpu_cluster_has(cluster, kube):
    for namespace, expected in (
        ("kube-system", {"coredns", "kube-proxy", "metrics-server"}),
        (
            "gpu-operator",
            {
                "gpu-operator",
                "nvidia-device-plugin",
                "gpu-feature-discovery",
                "nvidia-dcgm-exporter",
                "nvidia-driver-ctr",
                "nvidia-container-toolkit-ctr",
                "nvidia-operator-validator",
            },
        ),
        ("monitoring", {"prometheus", "kube-state-metrics", "node-exporter"}),
    ):
        pods = kube.list("v1", "Pod", namespace)
        assert {container["name"] for pod in pods for container in pod["spec"]["containers"]} == expected


def test_its_kubeconfig_is_not_readable_in_the_database(cluster):
    assert "BEGIN" not in cluster.kubeconfig
    assert "server" not in cluster.kubeconfig


def test_two_workers_cannot_be_on_one_run(fault):
    FaultRun.objects.filter(pk=fault.pk).update(
        lease_holder="other", lease_until=datetime.now(UTC) + timedelta(seconds=5)
    )
    with pytest.raises(LeaseHeld):
        services.inject_run(run_id=fault.pk, holder="w")


def test_a_run_that_was_never_sent_is_reverted_at_once(fault):
    run = services.revert_run(run_id=fault.pk, holder="w")
    assert (run.status, run.residue) == (Status.REVERTED, [])


def test_the_candidate_may_work_and_nothing_else(environment):
    access = services.candidate_access(run=environment, seconds=600)
    kube = Kube(parse(access.kubeconfig))
    assert access.username == f"system:serviceaccount:{HOME}:platform-oncall"
    assert kube.list("v1", "Pod", HOME) == []
    assert kube.list("v1", "Node")
    for forbidden in (
        lambda: kube.list("v1", "Secret", HOME),
        lambda: kube.list("v1", "Secret", NAMESPACE),
        lambda: kube.list("rbac.authorization.k8s.io/v1", "RoleBinding", HOME),
        lambda: kube.list("v1", "Pod", "default"),
        lambda: kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}),
        lambda: kube.patch("v1", "Namespace", HOME, "", {"metadata": {"labels": {"a": "b"}}}),
        lambda: kube.token_request(HOME, "platform-oncall", seconds=600),
    ):
        with pytest.raises(Forbidden):
            forbidden()
    kube.close()


def test_the_fresh_environment_does_not_pass_the_checks(fault, kube):
    outcomes = checks.evaluate_all(selectors.bound_pack(fault).checks, kube)
    assert "pass" not in {outcome.verdict for outcome in outcomes.values()}
