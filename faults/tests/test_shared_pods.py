"""Pods that would harm others on a shared cluster: by variables for the container runtime, or by filling disks.

On the clusters of ``clusters.py``: a practice cluster, and a real control plane where there is one.
"""

from __future__ import annotations

import uuid
from functools import partial
from pathlib import Path

import pytest

from faults import guardrails, selectors, services
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.models import Cluster
from faults.packs import AccessRule
from faults.tests.clusters import REAL, TIERS, eventually, flat, refusal
from faults.tests.conftest import deadline
from faults.tests.variants import FIRST_PACK

pytestmark = pytest.mark.django_db
IMAGES = FIRST_PACK
HOME = f"ml-{uuid.uuid4().hex[:8]}"


@pytest.fixture(params=TIERS)
def candidate(request):
    """The client of a candidate on a shared cluster, who may write config maps."""
    if request.param == "real":
        cluster = services.lend_cluster(name="shared", kubeconfig=flat(Path(REAL)))
    else:
        cluster = request.getfixturevalue("cluster")
    tier = partial(Cluster.objects.filter(pk=cluster.pk).update)
    tier(tier=Cluster.Tier.SHARED)
    cluster.refresh_from_db()
    rules = [AccessRule(("configmaps",), ("create", "delete", "patch"), (HOME,))]
    run = services.plan_environment_run(
        cluster=cluster, namespaces={"workloads": HOME}, deadline=deadline(), access=rules
    )
    services.inject_run(run_id=run.pk, holder="test")
    kube = Kube(parse(services.candidate_access(run=run, seconds=600).kubeconfig))
    yield kube
    kube.close()
    assert services.revert_run(run_id=run.pk, holder="test").residue == []
    tier(tier=Cluster.Tier.PRACTICE if request.param == "practice" else Cluster.Tier.DEDICATED)


def config(**data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": HOME}, "data": data}


def pod(**fields):
    made = guardrails.probe(HOME)
    made["spec"] = {"containers": [made["spec"]["containers"][0] | fields]}
    return made


@pytest.mark.parametrize("name", ["LD_PRELOAD", "NVIDIA_VISIBLE_DEVICES"])
def test_neither_containers_nor_config_maps_set_them(candidate, name):
    whole = {"configMapRef": {"name": "c", "optional": True}}
    assert "not preloaded" in refusal(candidate, pod(env=[{"name": name, "value": "x"}]))
    assert "no such variables" in refusal(candidate, config(**{name: "x"}))
    assert "without a prefix" in refusal(candidate, pod(envFrom=[whole | {"prefix": name[:3]}]))
    assert refusal(candidate, config(LOG_LEVEL="debug")) == ""
    assert refusal(candidate, pod(envFrom=[whole])) == ""


def test_disks_are_filled_within_limits_only(candidate):
    """A pod's share of its node's disk counts as its own; claims count together, those of pods' volumes, too."""
    made = candidate.create(pod())
    resources = made["spec"]["containers"][0]["resources"]
    assert [resources[side]["ephemeral-storage"] for side in ("limits", "requests")] == ["10Gi", "0"]
    assert "maximum ephemeral-storage usage" in refusal(candidate, pod(resources=disk("500Gi")))
    meta = {"name": "large", "namespace": HOME}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "900Ti"}}}
    made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim}
    assert "exceeded quota" in refusal(selectors.kube_for(Cluster.objects.get()), made)


@pytest.fixture
def classes():
    """Classes of priority of the cluster's own, above and below what pods without one have."""
    admin = selectors.kube_for(Cluster.objects.get())
    meta = [(f"{name}-{HOME}", value) for name, value in (("urgent", 1_000_000), ("idle", -1))]
    for name, value in meta:
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        admin.create({**kind, "metadata": {"name": name}, "value": value})
    yield [name for name, _ in meta]
    for name, _ in meta:
        admin.delete("scheduling.k8s.io/v1", "PriorityClass", name)
    admin.close()


def test_pods_of_others_are_not_displaced(candidate, classes):
    urgent, idle = classes

    def asked(name):
        made = pod()
        made["spec"]["priorityClassName"] = name
        return refusal(candidate, made)

    eventually(lambda: "a priority over other pods is not available" in asked(urgent))
    assert asked(idle) == ""
    assert refusal(candidate, pod()) == ""


def disk(size):
    return {"limits": {"ephemeral-storage": size}}
