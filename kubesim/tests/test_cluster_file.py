"""The cluster file: what a fresh cluster has of it, and what is said of one that cannot be used."""

from contextlib import asynccontextmanager

import pytest

from kubesim import clusterfile
from kubesim.clock import RealClock
from kubesim.cluster import Cluster, ClusterSpec
from kubesim.located import FileError
from kubesim.pki import CertificateAuthority

FULL = """\
nodes:
- {count: 2, product: A100, gpus: 4, labels: {team: vision}}
- count: 1
  gpus: 0
  profile: plain
  name: cpu
  taints:
  - {key: dedicated, value: batch, effect: NoSchedule}
namespaces:
- training
- {name: serving, labels: {pod-security.kubernetes.io/enforce: baseline}}
manifests:
- more
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: site, namespace: training}
  data: {at: 2026-01-01}
"""
LIST = """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: one}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: two}}
---
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
"""


@asynccontextmanager
async def cluster_of(folder, text):
    path = folder / "lab.yaml"
    path.write_text(text)
    clock = RealClock()
    spec = ClusterSpec("a", clock.now())
    cluster = await Cluster.create(
        spec, clock, "https://127.0.0.1:1", CertificateAuthority.create(clock.now()), clusterfile.read(path)
    )
    yield cluster
    await cluster.stop()


def found(cluster, resource, namespace=""):
    kind = cluster.operations.registry.by_resource(resource)
    return {obj["metadata"]["name"]: obj for obj in cluster.store.list(kind, namespace)}


async def test_a_fresh_cluster_has_what_the_file_asks_for(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.yaml").write_text(LIST)
    (tmp_path / "more" / "notes.txt").write_text("no manifest")
    async with cluster_of(tmp_path, FULL) as cluster:
        nodes = found(cluster, "nodes")
        assert len(nodes) == 3
        cpu = nodes.pop("cpu-0")
        assert {"key": "dedicated", "value": "batch", "effect": "NoSchedule"} in cpu["spec"]["taints"]
        assert cpu["metadata"]["labels"]["kubernetes.io/hostname"] == "cpu-0"
        assert "nvidia.com/gpu" not in cpu["status"]["capacity"]
        assert "gke" not in str(cpu)
        assert "cloud.google" not in str(cpu)
        for node in nodes.values():
            assert node["metadata"]["labels"]["team"] == "vision"
            assert node["status"]["capacity"]["nvidia.com/gpu"] == "4"
        serving = found(cluster, "namespaces")["serving"]
        assert serving["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"
        assert found(cluster, "configmaps", "training")["site"]["data"] == {"at": "2026-01-01"}
        assert {"one", "two"} < found(cluster, "configmaps", "default").keys()
        assert "w" in found(cluster, "widgets.example.com")


async def test_an_empty_list_of_nodes_means_none(tmp_path):
    async with cluster_of(tmp_path, "nodes: []\n") as cluster:
        assert found(cluster, "nodes") == {}


async def test_a_file_without_nodes_leaves_them_to_the_command_line(tmp_path):
    async with cluster_of(tmp_path, "namespaces: [a]\n") as cluster:
        assert len(found(cluster, "nodes")) == 3


NO_SUCH_PRODUCT = 'nodes[0].product: Unsupported value: "H1000": supported values: "A100"'
TOO_FEW = "nodes[0].count in body should be greater than or equal to 0"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "one mapping is expected"),
        ("- a", 1, "one mapping is expected"),
        ("a: b: c", 1, "no YAML that can be used"),
        ("nodes: []\nnodes: []", 2, "nodes is given twice"),
        ("1: 2", 1, "a key is no text"),
        ("nodes: [1", 1, "no YAML"),
        ("node: []", 1, "node: there is no such field; known are nodes,"),
        ("nodes: 3", 1, 'nodes: Invalid value: "integer": nodes in body must be of type array'),
        ("nodes:\n- 3", 1, "nodes[0] in body must be of type object"),
        ("nodes:\n- count: 1\n  product: H1000", 3, NO_SUCH_PRODUCT),
        ("nodes:\n- {count: -1}", 2, f"nodes[0].count: Invalid value: -1: {TOO_FEW}"),
        ("nodes:\n- {count: yes}", 2, "must be of type integer"),
        ("nodes:\n- {gpus: 17}", 2, "nodes[0].gpus in body should be less than or equal to 16"),
        ("nodes:\n- {labels: {a: 1}}", 2, "put numbers and true into quotes"),
        ("nodes:\n- {colour: red}", 2, "nodes[0].colour: there is no such field; known are count, product"),
        ("nodes:\n- {taints: [{effect: 3}]}", 2, "nodes[0].taints[0].effect in body must be of type string"),
        ("nodes:\n- {count: 600}\n- {count: 600}", 1, "more than 1000"),
        ("nodes:\n- {name: a}\n- {name: a}", 1, "a is the name of more than one entry"),
        ("namespaces:\n- 3", 1, "namespaces[0]: a name or a mapping with one is expected, not 3"),
        ("manifests: [nowhere.yaml]", 1, "is no manifest and no folder of some"),
        ("manifests:\n- {a: b}", 2, "apiVersion: Required value"),
        ("manifests:\n- {apiVersion: v1, kind: Node}", 2, "give nodes under nodes:"),
        ("manifests:\n- {apiVersion: v1, kind: Pod, metadata: 3}", 2, "metadata in body must be of type object"),
        ("[" * 2000, 0, "nested too deeply"),
        ("\x01", 0, "no YAML that can be used"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_with_its_line(tmp_path, text, line, words):
    path = tmp_path / "lab.yaml"
    path.write_text(text)
    with pytest.raises(FileError) as caught:
        clusterfile.read(path)
    assert str(caught.value).startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("nodes:\n- {labels: {'a b': c}}", 2, 'metadata.labels: Invalid value: "a b"'),
        (
            "nodes:\n- count: 1\n- {taints: [{key: a, effect: Sometimes}]}",
            3,
            "taints[0].effect: Unsupported",
        ),
        ("namespaces: [A_b]", 1, 'Namespace "A_b" is invalid'),
        ("manifests:\n- {apiVersion: v2, kind: Pod}", 2, 'no matches for kind "Pod" in version "v2"'),
        ("manifests:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}}", 2, '"b" not found'),
        ("manifests:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, date: {}}", 2, "unknown field"),
    ],
)
async def test_what_the_api_refuses_is_told_with_its_line(tmp_path, text, line, words):
    with pytest.raises(FileError) as caught:
        async with cluster_of(tmp_path, text):
            pass
    assert str(caught.value).startswith(f"{tmp_path / 'lab.yaml'}:{line}: ")
    assert words in str(caught.value)
