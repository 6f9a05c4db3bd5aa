"""Guide mode on a control plane that is there already: its objects, and what it refuses."""

from __future__ import annotations

import shutil
import uuid

import pytest

from faults import practice as practice_clusters
from faults.errors import NotFound
from faults.guide import joined_cluster
from faults.guide.practice_cluster import NotReady
from faults.kube.client import Kube
from faults.kube.config import parse
from faults.practice_shape import PracticeShape
from faults.tests.conftest import deadline

CLUSTERWIDE = (
    ("v1", "Namespace"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("node.k8s.io/v1", "RuntimeClass"),
)


@pytest.fixture
def kubeconfig(practice):
    """A cluster without addons, which has none of the guide's objects."""
    name = f"g-{uuid.uuid4().hex[:10]}"
    yield practice_clusters.create(name, deadline(), PracticeShape(addons=()))["kubeconfig"]
    practice_clusters.drop(name)


@pytest.fixture
def kube(kubeconfig):
    kube = Kube(parse(kubeconfig))
    yield kube
    kube.close()


def clusterwide(kube):
    return {kind: {obj["metadata"]["name"] for obj in kube.list(version, kind)} for version, kind in CLUSTERWIDE}


def go_on(seconds):
    return False


def test_it_refuses_a_cluster_with_nodes_of_its_own(kubeconfig):
    with pytest.raises(NotReady, match="has nodes of its own"):
        joined_cluster.make_cluster(kubeconfig)


def test_it_refuses_a_cluster_where_one_of_its_names_is_taken(kube):
    joined_cluster.require_free(kube)
    kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dynamo-oviya"}})
    with pytest.raises(NotReady, match="has Namespace dynamo-oviya already"):
        joined_cluster.require_free(kube)
    joined_cluster.remove(kube)
    assert kube.get("v1", "Namespace", "dynamo-oviya")["status"]["phase"] == "Active"


def test_it_leaves_nothing_behind_even_where_an_earlier_one_was_killed(kube):
    before = clusterwide(kube)
    joined_cluster.install(kube, go_on)
    graph = ("nvidia.com/v1alpha1", "DynamoGraphDeployment", "vllm-v1-disagg-router", "dynamo-oviya")
    first = kube.get(*graph)
    joined_cluster.require_free(kube)
    joined_cluster.install(kube, go_on)
    assert kube.get(*graph)["metadata"]["uid"] != first["metadata"]["uid"]
    joined_cluster.remove(kube)
    assert clusterwide(kube) == before
    with pytest.raises(NotFound):
        kube.get(*graph)


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl in PATH")
def test_it_says_which_kubeconfig_cannot_be_used(tmp_path, kubeconfig):
    file = tmp_path / "config"
    with pytest.raises(NotReady, match="There is no file .*config"):
        joined_cluster.read_kubeconfig(file, "")
    file.write_text(kubeconfig)
    with pytest.raises(NotReady, match="config cannot be used: .*elsewhere"):
        joined_cluster.read_kubeconfig(file, "elsewhere")
    assert parse(joined_cluster.read_kubeconfig(file, "")).server == parse(kubeconfig).server
