"""Clusters that begin with an image: whole, settled, and each with everything of its own."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from kubesim import clusterfile, data, hosting
from kubesim.changelog import State
from kubesim.clock import ManualClock
from kubesim.cluster import Cluster, ClusterSpec
from kubesim.controllers.base import Keeper
from kubesim.gpu.nodes import node_name
from kubesim.holders import server_id
from kubesim.image import ISSUER, Image, take
from kubesim.inprocess import InProcessClient
from kubesim.pki import CertificateAuthority
from kubesim.saved import key

ASKED = {"nodes": 2, "gpus": 4, "addons": ["coredns", "gpu-operator"]}
UID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
LATER = timedelta(days=3, seconds=0.25)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    images: list[Image] = []
    assert sum(1 for _ in take(ASKED, authority(tmp_path_factory.mktemp("image")), images)) > 10
    return images[0]


def authority(folder):
    return CertificateAuthority.at(folder, datetime.now(UTC))


def born(image: Image, name: str, at: datetime) -> State:
    return image.state_of(ClusterSpec(name, at, nodes=2, gpus=4), f"https://clusters.example.com/{name}")


def pods(cluster):
    return cluster.store.list(cluster.operations.registry.by_resource("pods"))


def names(state: State, table: str) -> set[str]:
    return {found[3] for found in map(orjson.loads, state) if found[:2] == ["object", table]}


async def test_two_clusters_of_an_image_share_no_identifier_and_no_name_of_a_pod(image):
    one, other = (born(image, name, image.at) for name in ("one", "other"))
    uids = [set(UID.findall(b"\n".join([*state, *state.values()]))) for state in (one, other)]
    assert len(uids[0]) == len(uids[1]) > 200
    assert uids[0].isdisjoint(uids[1])
    assert len(names(one, "pods")) == len(names(other, "pods")) > 8
    assert names(one, "pods").isdisjoint(names(other, "pods"))
    assert names(one, "services") == names(other, "services")
    secrets = [orjson.loads(state[b'["cluster"]'])["secrets"] for state in (one, other)]
    assert secrets[0]["signerKey"] != secrets[1]["signerKey"]
    assert secrets[0]["issuer"].endswith("/one")


async def test_nothing_tells_of_the_cluster_that_the_image_is_of(image):
    state = b"\n".join(line for item in born(image, "one", image.at).items() for line in item)
    assert b"image-control-plane" not in state
    assert server_id("image-control-plane").encode() not in state
    assert ISSUER.encode() not in state


async def test_a_name_and_an_identifier_are_the_same_wherever_they_stand(image):
    state = born(image, "one", image.at)
    kept = {name: orjson.loads(value) for name, value in state.items() if name.startswith(b'["object"')}
    for name, obj in kept.items():
        assert orjson.loads(name)[3] == obj["metadata"]["name"]
    known = {obj["metadata"]["uid"] for obj in kept.values()}
    owners = [owner for obj in kept.values() for owner in obj["metadata"].get("ownerReferences", [])]
    assert owners
    assert {owner["uid"] for owner in owners} <= known
    records = {found[1].removeprefix("pod/") for found in map(orjson.loads, state) if found[0] == "kubelet"}
    assert {obj["metadata"]["uid"] for name, obj in kept.items() if name.startswith(b'["object","pods"')} <= records


async def test_times_move_before_the_hour_of_birth_and_keep_their_form(image):
    at = image.at + LATER
    state = b"\n".join(born(image, "one", at).values())
    found = {text.decode() for text in re.findall(rb"20\d\d-\d\d-\d\dT[0-9:.]+(?:Z|\+00:00)", state)}
    moments = [datetime.fromisoformat(text) for text in found]
    assert at - timedelta(days=121) < min(moments) < at - timedelta(days=44)
    assert max(moments) <= at
    assert {len(text) for text in found} == {20, 27, 32}


def objects(state: State, table: str) -> dict[str, dict]:
    found = {key: orjson.loads(value) for key, value in state.items() if key.startswith(b'["object"')}
    return {obj["metadata"]["name"]: obj for key, obj in found.items() if orjson.loads(key)[1] == table}


def made(obj: dict) -> datetime:
    return datetime.fromisoformat(obj["metadata"]["creationTimestamp"])


async def test_control_plane_addons_nodes_and_pods_have_ages_of_their_own_in_this_order(image):
    state = born(image, "one", image.at)
    spaces, nodes = objects(state, "namespaces"), objects(state, "nodes")
    joined = sorted(made(node) for node in nodes.values())
    assert made(spaces["kube-system"]) < made(spaces["gpu-operator"]) < joined[0]
    assert len(set(joined)) == len(nodes) == 3
    for pod in objects(state, "pods").values():
        node = nodes[pod["spec"]["nodeName"]]
        assert timedelta(0) <= made(pod) - made(node) < timedelta(minutes=1)
        status = pod["status"]["containerStatuses"][0]
        assert datetime.fromisoformat(status["state"]["running"]["startedAt"]) >= made(pod)
    for name, node in nodes.items():
        booted = datetime.fromisoformat(orjson.loads(state[key("kubelet", f"gpus/{name}")])["booted"])
        assert timedelta(seconds=40) < made(node) - booted < timedelta(seconds=60)
        assert all(
            each["lastTransitionTime"][:10] == f"{made(node):%Y-%m-%d}" for each in node["status"]["conditions"]
        )
    assert not objects(state, "events")


async def test_the_seed_decides_on_ages_names_of_nodes_and_restarts(image):
    one, again, other = (born(image, name, image.at) for name in ("one", "one", "other"))
    ages = [{name: made(obj) for name, obj in objects(state, "nodes").items()} for state in (one, again, other)]
    assert ages[0] == ages[1]
    assert ages[0].keys().isdisjoint(ages[2])
    assert set(ages[0].values()).isdisjoint(ages[2].values())
    counts = []
    for number in range(8):
        pods = objects(born(image, f"cluster-{number}", image.at), "pods").values()
        statuses = [pod["status"]["containerStatuses"][0] for pod in pods]
        counts.append(sum(status["restartCount"] for status in statuses))
        assert all(bool(status["restartCount"]) == bool(status["lastState"]) for status in statuses)
    assert len(set(counts)) > 1
    assert set(counts) <= {1, 2, 3}


async def test_the_machines_have_identities_of_version_4_that_agree(image):
    state = born(image, "one", image.at)
    for node in objects(state, "nodes").values():
        info = node["status"]["nodeInfo"]
        assert info["systemUUID"].replace("-", "") == info["machineID"]
        assert UID.fullmatch(info["systemUUID"].encode())
        assert UID.fullmatch(info["bootID"].encode())


async def test_gpu_nodes_are_kept_for_pods_that_ask_for_gpus_and_others_run_on_a_cpu_machine(image):
    nodes = objects(born(image, "one", image.at), "nodes")
    kept = [node for node in nodes.values() if node["spec"].get("taints")]
    (other,) = [node for node in nodes.values() if node not in kept]
    present = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    assert [node["spec"]["taints"] for node in kept] == [[present]] * 2
    labels = other["metadata"]["labels"]
    assert labels["node.kubernetes.io/instance-type"] == "e2-standard-16"
    assert labels["cloud.google.com/gke-nodepool"] == "default-pool"
    assert other["metadata"]["name"].startswith("gke-ml-prod-default-pool-")
    assert not any("nvidia" in name for name in labels)


async def test_a_cluster_of_an_image_goes_on_from_there(image, tmp_path):
    at = image.at + LATER
    clock = ManualClock(at)
    state = born(image, "one", at)
    cluster = await Cluster.restore(state, clock, "https://127.0.0.1:1", authority(tmp_path))
    try:
        before = {pod["metadata"]["uid"]: pod["status"] for pod in pods(cluster)}
        assert all(status["phase"] == "Running" for status in before.values())
        await clock.advance(60)
        after = {pod["metadata"]["uid"]: pod["status"] for pod in pods(cluster)}
        assert after.keys() == before.keys()
        assert all(found["ready"] for status in after.values() for found in status["containerStatuses"])
        counts = [
            {uid: status["containerStatuses"][0]["restartCount"] for uid, status in found.items()}
            for found in (before, after)
        ]
        assert counts[0] == counts[1]
        leases = cluster.store.list(
            cluster.operations.registry.by_resource("leases.coordination.k8s.io"), "kube-system"
        )
        assert len(leases) == 3
        assert all(b"one-control-plane" in lease.raw or b"apiserver-" in lease.raw for lease in leases)
        nodes = cluster.store.list(cluster.operations.registry.by_resource("nodes"))
        ready = [
            found["status"] for node in nodes for found in node["status"]["conditions"] if found["type"] == "Ready"
        ]
        assert ready == ["True", "True", "True"]
    finally:
        await cluster.stop()


async def test_a_cluster_of_an_image_writes_down_only_that_its_nodes_live(image, tmp_path, monkeypatch):
    written, write = [], InProcessClient.write

    async def note(self, asked):
        if asked.verb in ("update", "patch"):
            written.append((asked.resource, asked.subresource))
        return await write(self, asked)

    monkeypatch.setattr(InProcessClient, "write", note)
    clock = ManualClock(image.at + LATER)
    cluster = await Cluster.restore(
        born(image, "one", clock.now()), clock, "https://127.0.0.1:1", authority(tmp_path)
    )
    try:
        assert len(pods(cluster)) > 8
        await clock.advance(2)
        others = {("configmaps", "")}  # this cluster has another certificate authority than the image
        assert {*written} - others == {("nodes", "status"), ("leases.coordination.k8s.io", "")}
    finally:
        await cluster.stop()


async def test_the_controllers_of_a_cluster_of_an_image_first_do_what_is_new(image, tmp_path, monkeypatch):
    synced, sync = [], Keeper.sync

    async def note(self, namespace, name):
        synced.append((self.resource, namespace, name))
        await sync(self, namespace, name)

    monkeypatch.setattr(Keeper, "sync", note)
    clock = ManualClock(image.at + LATER)
    state = born(image, "one", clock.now())
    cluster = await Cluster.restore(state, clock, "https://127.0.0.1:1", authority(tmp_path), settled=True)
    try:
        await clock.advance(1)
        assert {resource for resource, _, _ in synced} == {"customresourcedefinitions.apiextensions.k8s.io"}
        synced.clear()
        clusterfile.read(hosting.WORKLOAD).create(cluster.operations)
        await clock.advance(1)
        assert {namespace or name for _, namespace, name in synced} == {"first"}
        await clock.advance(10)
        assert len({key for key in synced if "first" not in key}) > 40
    finally:
        await cluster.stop()


async def test_what_the_first_workload_computes_is_computed_with_the_image(tmp_path, monkeypatch):
    images, workload = list[Image](), clusterfile.read(hosting.WORKLOAD)
    own = authority(tmp_path)
    await asyncio.to_thread(list, take({"nodes": 3, "gpus": 8, "addons": []}, own, images, workload))
    state = born(images[0], "one", images[0].at)
    assert "first" not in names(state, "namespaces")
    tables: list[object] = []
    monkeypatch.setattr(data, "parse", lambda text: tables.append(text))
    clock = ManualClock(images[0].at)
    cluster = await Cluster.restore(state, clock, "https://127.0.0.1:1", own)
    try:
        workload.create(cluster.operations)
        await clock.advance(10)
        found = {pod["metadata"]["name"].partition("-")[0]: pod for pod in pods(cluster)}
        assert found["first"]["spec"]["nodeName"]
        states = [pod["status"]["containerStatuses"][0]["state"] for pod in pods(cluster)]
        assert sorted(next(iter(state)) for state in states) == ["running", "waiting"]
        assert tables == []
    finally:
        await cluster.stop()


def test_a_cluster_of_pools_is_born_settled(tmp_path):
    nodes = [{"gpus": 2, "product": "A100", "labels": {"team": "vision"}}, {"gpus": 0, "name": "worker"}]
    images: list[Image] = []
    list(
        take(
            {"nodes": 2, "gpus": 2, "addons": ["gpu-operator"], "file": {"nodes": nodes}}, authority(tmp_path), images
        )
    )
    state = born(images[0], "one", images[0].at)
    found = [orjson.loads(value) for name, value in state.items() if name.startswith(b'["object","nodes"')]
    first, plain = found
    assert first["metadata"]["name"] == node_name("a100-pool", 0, "one")
    assert plain["metadata"]["name"] == "worker-0"
    assert first["metadata"]["labels"]["team"] == "vision"
    assert first["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert b"image-control-plane" not in b"".join(state.values())
