"""Clusters that begin with an image: whole, settled, and each with everything of its own."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from kubesim.changelog import State
from kubesim.clock import ManualClock
from kubesim.cluster import Cluster, ClusterSpec
from kubesim.image import ISSUER, Image, take
from kubesim.pki import CertificateAuthority

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
    assert ISSUER.encode() not in state


async def test_a_name_and_an_identifier_are_the_same_wherever_they_stand(image):
    state = born(image, "one", image.at)
    objects = {key: orjson.loads(value) for key, value in state.items() if key.startswith(b'["object"')}
    for key, obj in objects.items():
        assert orjson.loads(key)[3] == obj["metadata"]["name"]
    known = {obj["metadata"]["uid"] for obj in objects.values()}
    owners = [owner for obj in objects.values() for owner in obj["metadata"].get("ownerReferences", [])]
    assert owners
    assert {owner["uid"] for owner in owners} <= known
    kept = {found[1].removeprefix("pod/") for found in map(orjson.loads, state) if found[0] == "kubelet"}
    assert {obj["metadata"]["uid"] for key, obj in objects.items() if key.startswith(b'["object","pods"')} <= kept


async def test_times_move_to_the_hour_of_birth_and_keep_their_form(image):
    at = image.at + LATER
    state = b"\n".join(born(image, "one", at).values())
    found = {text.decode() for text in re.findall(rb"20\d\d-\d\d-\d\dT[0-9:.]+(?:Z|\+00:00)", state)}
    moments = [datetime.fromisoformat(text) for text in found]
    assert at - timedelta(minutes=1) < min(moments)
    assert max(moments) <= at
    assert {len(text) for text in found} == {20, 27, 32}


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
        assert not any(found["restartCount"] for status in after.values() for found in status["containerStatuses"])
        leases = cluster.store.list(
            cluster.operations.registry.by_resource("leases.coordination.k8s.io"), "kube-system"
        )
        assert len(leases) == 3
        assert all(b"one-control-plane" in lease.raw or b"apiserver-" in lease.raw for lease in leases)
        nodes = cluster.store.list(cluster.operations.registry.by_resource("nodes"))
        ready = [
            found["status"] for node in nodes for found in node["status"]["conditions"] if found["type"] == "Ready"
        ]
        assert ready == ["True", "True"]
    finally:
        await cluster.stop()
