"""Hostile writes outside of a session's namespaces, in a cluster that stays: objects that outlive it untold.

On the clusters of ``clusters.py``: a practice cluster, and a real control plane where there is one.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from faults import selectors, services
from faults.errors import ClusterError, Forbidden
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.models import Cluster, FaultRun
from faults.packs import AccessRule
from faults.tests.clusters import REAL, TIERS, eventually, flat
from faults.tests.conftest import deadline
from faults.tests.variants import FIRST_PACK

pytestmark = pytest.mark.django_db
IMAGES = FIRST_PACK
NODE, SERVICE, LENT = "lent-node", "exporter", "outside"
SPEC = {"selector": {"app": "exporter"}, "ports": [{"port": 9400}]}
SUBSETS = [{"addresses": [{"ip": "192.0.2.9"}], "ports": [{"port": 27000}]}]


@pytest.fixture
def lent(request):
    if request.param == "real":
        return services.lend_cluster(name=LENT, kubeconfig=flat(Path(REAL)))
    cluster = request.getfixturevalue("cluster")
    Cluster.objects.filter(pk=cluster.pk).update(tier=Cluster.Tier.DEDICATED)
    cluster.refresh_from_db()
    return cluster


@pytest.fixture
def admin(lent):
    return selectors.kube_for(lent)


@pytest.fixture
def outside(admin, lent):
    """A namespace of the cluster's, with a service, and a node."""
    name = f"gpu-{uuid.uuid4().hex[:8]}"
    admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    admin.create(of("Service", name, SERVICE, spec=SPEC), field_manager="helm")
    admin.create(of("Endpoints", name, "license-server") | {"subsets": SUBSETS}, field_manager="kubectl-create")
    admin.create(of("Service", name, "managed", spec=SPEC, ownerReferences=[owner(admin, name)]))
    admin.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    if lent.name == LENT:
        eventually(lambda: not admin.get("v1", "Node", NODE)["spec"].get("taints"))
    yield name
    admin.delete("v1", "Node", NODE)
    admin.delete("v1", "Namespace", name)
    eventually(lambda: name not in [each["metadata"]["name"] for each in admin.list("v1", "Namespace")])


@pytest.fixture
def place(lent, outside):
    """A session with rights in that namespace, and to change the node."""
    rules = [
        AccessRule(("configmaps", "endpoints"), ("get", "create", "patch", "delete"), (outside,)),
        AccessRule(("services",), ("get", "create", "patch"), (outside,)),
        AccessRule(("nodes",), ("patch",), (), (NODE,)),
    ]
    names = {"workloads": f"ml-{uuid.uuid4().hex[:8]}"}
    run = services.plan_environment_run(cluster=lent, namespaces=names, deadline=deadline(), access=rules)
    yield services.inject_run(run_id=run.pk, holder="test")
    assert services.revert_run(run_id=run.pk, holder="test").residue == []
    Cluster.objects.filter(name=lent.name).exclude(name=LENT).update(tier=Cluster.Tier.PRACTICE)


@pytest.fixture
def candidate(place, outside):
    kube = Kube(parse(services.candidate_access(run=place, seconds=600).kubeconfig))
    probe = of("ConfigMap", outside, "probe", finalizers=["example.com/x"])
    eventually(lambda: refused(partial(kube.create, dry_run=True), probe))
    yield kube
    kube.close()


def of(kind, namespace, name, spec=None, **meta):
    made = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace, **meta}}
    return made | ({"spec": spec} if spec else {})


def owner(admin, namespace):
    """Return the service as what controls another object."""
    uid = admin.get("v1", "Service", SERVICE, namespace)["metadata"]["uid"]
    return {"apiVersion": "v1", "kind": "Service", "name": SERVICE, "uid": uid, "controller": True}


def refused(call, *arguments, **named):
    """Return the words of a refusal by a policy; empty where there was none."""
    try:
        call(*arguments, **named)
    except Forbidden as error:
        return error.message if "outside your own namespaces" in error.message else ""
    except ClusterError as error:
        raise AssertionError(error.message) from error
    return ""


@pytest.mark.parametrize("lent", TIERS, indirect=True)
def test_what_is_made_outside_has_no_owner_and_no_finalizer_so_that_it_is_told_or_deleted(admin, candidate, outside):
    for meta in ({"ownerReferences": [owner(admin, outside)]}, {"finalizers": ["example.com/keep"]}):
        assert refused(candidate.create, of("ConfigMap", outside, "hidden", **meta), field_manager="operator")
        assert refused(candidate.patch, "v1", "Service", SERVICE, outside, {"metadata": meta})
        assert refused(candidate.patch, "v1", "Node", NODE, "", {"metadata": meta})
    candidate.create(of("ConfigMap", outside, "mine", labels={"app": "mine"}), field_manager="kubectl-create")
    candidate.patch("v1", "ConfigMap", "mine", outside, {"data": {"a": "b"}}, field_manager="kubectl-patch")


@pytest.mark.parametrize("lent", TIERS, indirect=True)
def test_services_outside_keep_their_type_and_addresses(candidate, outside):
    for spec in ({"externalIPs": ["192.0.2.7"]}, {"type": "LoadBalancer"}, {"type": "NodePort"}):
        assert refused(candidate.patch, "v1", "Service", SERVICE, outside, {"spec": spec})
        assert refused(candidate.create, of("Service", outside, "mine", spec=SPEC | spec))
    named = {"type": "ExternalName", "externalName": "example.com", "clusterIP": None, "clusterIPs": None}
    assert refused(candidate.patch, "v1", "Service", SERVICE, outside, {"spec": named})
    repaired = {"metadata": {"labels": {"app": "exporter"}}, "spec": {"selector": {"app": "dcgm-exporter"}}}
    candidate.patch("v1", "Service", SERVICE, outside, repaired, dry_run=True)
    candidate.create(of("Service", outside, "mine", spec=SPEC), field_manager="kubectl-create")


@pytest.mark.parametrize("lent", TIERS, indirect=True)
def test_nodes_change_only_where_the_end_of_the_session_looks(candidate):
    note = {"metadata": {"annotations": {"flannel.alpha.coreos.com/public-ip-overwrite": "192.0.2.7"}}}
    for patch in (note, {"spec": {"providerID": "gce://other/zone/node"}}, {"spec": {"podCIDR": "192.0.2.0/24"}}):
        with pytest.raises(Forbidden, match="of nodes, only labels, taints"):
            candidate.patch("v1", "Node", NODE, "", patch)
    taint = {"key": "example.com/dedicated", "value": "speech", "effect": "NoSchedule"}
    patch = {"metadata": {"labels": {"pool": "speech"}}, "spec": {"taints": [taint], "unschedulable": True}}
    candidate.patch("v1", "Node", NODE, "", patch, dry_run=True)


@pytest.mark.parametrize("lent", TIERS, indirect=True)
def test_what_people_made_before_the_session_stays_whatever_its_kind(place, admin, candidate, outside):
    """No picture of the cluster has endpoints, which are written all the time."""
    made = admin.get("v1", "Endpoints", "license-server", outside)["metadata"]["creationTimestamp"]
    later = datetime.fromisoformat(made) + timedelta(seconds=1)
    FaultRun.objects.filter(pk=place.pk).update(created_at=later)
    eventually(lambda: datetime.now(UTC) > later)
    candidate.create(of("Endpoints", outside, "mine") | {"subsets": SUBSETS}, field_manager="kubectl-create")
    assert services.revert_run(run_id=place.pk, holder="test").residue == []
    left = {each["metadata"]["name"] for each in admin.list("v1", "Endpoints", outside)}
    assert left & {"license-server", "mine"} == {"license-server"}


@pytest.mark.parametrize("lent", TIERS, indirect=True)
def test_changes_of_what_a_controller_made_are_told(place, candidate, outside):
    candidate.patch("v1", "Service", "managed", outside, {"spec": {"selector": {"app": "other"}}})
    residue = services.revert_run(run_id=place.pk, holder="test").residue
    FaultRun.objects.filter(pk=place.pk).update(residue=[])
    assert residue == [f"controlled v1/Service {outside}/managed has changed"]
