"""Clusters in which somebody has access whom a candidate may impersonate."""

from __future__ import annotations

import pytest

from faults import services
from faults.errors import FaultError
from faults.impersonation import bound_namesakes
from faults.tests.fakes import FakeCluster, FakeKind
from faults.tests.variants import PACKS

RBAC = "rbac.authorization.k8s.io"
KINDS = [FakeKind(f"{RBAC}/v1", "RoleBinding"), FakeKind(f"{RBAC}/v1", "ClusterRoleBinding", namespaced=False)]
TENANCY = next(pack for pack in PACKS if pack.slug == "extend-tenancy")
REFUSED = next(pack for pack in PACKS if pack.slug == "jobs-refused")
MIA = {"kind": "User", "apiGroup": RBAC, "name": "mia@vision.example.com"}
WORKLOAD = {"kind": "ServiceAccount", "name": "workload", "namespace": "production"}
LAUNCHER = WORKLOAD | {"name": "job-launcher"}


def binding(name, *subjects, namespace=""):
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": meta, "roleRef": role, "subjects": list(subjects)}


def with_bindings(*bindings):
    cluster = FakeCluster(KINDS)
    for each in bindings:
        cluster.create(each)
    return cluster


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (binding("ops", MIA), "ClusterRoleBinding ops names the User mia@vision.example.com"),
        (binding("deploy", LAUNCHER, WORKLOAD, namespace="production"), "deploy names the ServiceAccount workload"),
    ],
)
def test_a_binding_of_a_namesake_is_told(made, told):
    (found,) = bound_namesakes(with_bindings(made), [TENANCY])
    assert told in found


@pytest.mark.parametrize(
    ("pack", "made"),
    [
        (TENANCY, binding("job-launcher", WORKLOAD)),
        (TENANCY, binding("viewers", MIA, namespace="tenant-b")),
        (TENANCY, binding("ops", LAUNCHER, MIA | {"kind": "Group"})),
        (REFUSED, binding("ops", LAUNCHER, MIA, WORKLOAD)),
    ],
)
def test_bindings_of_the_code_and_of_whom_nobody_can_impersonate_are_not(pack, made):
    assert bound_namesakes(with_bindings(made), [pack]) == []


@pytest.mark.django_db
def test_a_session_is_refused_such_a_cluster(cluster, kube):
    services.require_inventory(cluster=cluster, packs=[TENANCY])
    kube.create(binding("ops", MIA))
    with pytest.raises(FaultError, match="ClusterRoleBinding ops names the User mia@vision.example.com, whom"):
        services.require_inventory(cluster=cluster, packs=[TENANCY])
