"""Which node a pod gets, and what the scheduler says when none will do."""

import pytest

from kubesim.recorder import Recorder
from kubesim.scheduler.preemption import available
from kubesim.scheduler.state import requests
from kubesim.tests.world import container, deployment, pod, world


def gpus(count, name="train", **spec):
    return pod(
        name, container("busybox:1.36", "sleep", "9999", resources={"limits": {"nvidia.com/gpu": str(count)}}), **spec
    )


async def refusal(w):
    """The message of the condition, which must be that of the event."""
    obj = await w.pod()
    condition = next(c for c in obj["status"]["conditions"] if c["type"] == "PodScheduled")
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert (await w.messages("FailedScheduling"))[-1] == condition["message"]
    return condition["message"]


def test_reasons_are_counted_and_sorted_as_texts():
    reasons = ["Insufficient cpu", "Insufficient memory"] * 2 + ["node(s) were unschedulable"]
    assert available(3, reasons) == (
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu, 2 Insufficient memory."
    )


def test_init_containers_count_by_their_peak_and_sidecars_always():
    def asks(cpu, **more):
        return {"name": "x", "resources": {"requests": {"cpu": cpu}}} | more

    spec = {
        "containers": [asks("1"), asks("500m")],
        "initContainers": [asks("250m", restartPolicy="Always"), asks("3")],
    }
    assert requests(spec)["cpu"] == 3250


async def test_a_pod_is_bound_and_told_so():
    async with world() as w:
        await w.create("pods", gpus(4))
        obj = await w.pod()
        assert obj["spec"]["nodeName"] in w.node_names
        (event,) = await w.events("Scheduled")
        assert event["message"] == f"Successfully assigned default/train to {obj['spec']['nodeName']}"
        assert event["reportingComponent"] == "default-scheduler"
        await w.check_models()


async def test_replicas_spread_over_the_nodes():
    async with world() as w:
        await w.create("deployments.apps", deployment("web", replicas=6))
        await w.tick()
        placed = [obj["spec"]["nodeName"] for obj in await w.items("pods")]
        assert sorted(placed.count(name) for name in w.node_names) == [2, 2, 2]


async def test_more_gpus_than_a_node_has_help_nobody():
    async with world() as w:
        await w.create("pods", gpus(16))
        assert await refusal(w) == (
            "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. no new claims to deallocate, "
            "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
        )
        await w.check_models()


async def test_a_full_cluster_has_no_victims():
    async with world(count=1) as w:
        await w.create("pods", gpus(6, "first"))
        await w.create("pods", gpus(4, "second"))
        texts = await w.messages("FailedScheduling")
        assert texts == [
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
        ]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"nodeSelector": {"kubernetes.io/arch": "arm64"}}, "node(s) didn't match Pod's node affinity/selector"),
        ({}, "node(s) were unschedulable"),
        ({}, "node(s) had untolerated taint(s)"),
    ],
    ids=["selector", "cordon", "taint"],
)
async def test_a_node_is_refused_for_the_first_reason(spec, reason):
    async with world(count=2) as w:
        for name in w.node_names:
            if "unschedulable" in reason:
                await w.client.patch("nodes", name, "", {"spec": {"unschedulable": True}})
            if "taint" in reason:
                taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
                await w.client.patch("nodes", name, "", {"spec": {"taints": [taint]}})
        await w.tick(0)
        await w.create("pods", gpus(16, **spec))
        assert (await refusal(w)).startswith(f"0/2 nodes are available: 2 {reason}. ")
        assert (await refusal(w)).endswith("2 Preemption is not helpful for scheduling.")


async def test_a_toleration_opens_a_tainted_node():
    async with world(count=1) as w:
        taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
        await w.client.patch("nodes", w.node_names[0], "", {"spec": {"taints": [taint]}})
        await w.tick(0)
        await w.create("pods", gpus(1, tolerations=[{"key": "gpu", "operator": "Exists"}]))
        assert (await w.pod())["spec"]["nodeName"] == w.node_names[0]


async def test_uncordoning_lets_a_waiting_pod_in():
    async with world(count=1) as w:
        await w.client.patch("nodes", w.node_names[0], "", {"spec": {"unschedulable": True}})
        await w.tick(1)
        (node,) = await w.items("nodes", "")
        assert [taint["key"] for taint in node["spec"]["taints"]] == ["node.kubernetes.io/unschedulable"]
        await w.create("pods", gpus(1))
        assert "nodeName" not in (await w.pod())["spec"]
        await w.client.patch("nodes", w.node_names[0], "", {"spec": {"unschedulable": None}})
        await w.tick(12)
        assert (await w.pod())["status"]["phase"] == "Running"


async def test_a_pod_that_ends_makes_room():
    async with world(count=1) as w:
        short = pod("short", container("busybox:1.36", "sleep", "20", resources={"limits": {"nvidia.com/gpu": "8"}}))
        await w.create("pods", short | {"spec": short["spec"] | {"restartPolicy": "Never"}})
        await w.create("pods", gpus(8, "waiting"))
        await w.tick(5)
        assert (await w.pod("waiting"))["status"]["phase"] == "Pending"
        await w.tick(30)
        assert (await w.pod("waiting"))["status"]["phase"] == "Running"


async def test_anti_affinity_keeps_pods_apart():
    async with world(count=2) as w:
        term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        for name in ("a", "b", "c"):
            obj = gpus(1, name, affinity=affinity)
            obj["metadata"]["labels"] = {"app": "x"}
            await w.create("pods", obj)
        assert len({(await w.pod(name))["spec"]["nodeName"] for name in ("a", "b")}) == 2
        (text,) = await w.messages("FailedScheduling")
        assert text.startswith("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. ")


async def test_without_nodes_nothing_is_available():
    async with world(count=0) as w:
        await w.create("pods", gpus(1))
        assert await refusal(w) == "no nodes available to schedule pods"


async def test_a_series_of_events_goes_on_until_its_object_changes():
    async with world() as w:
        recorder = Recorder(w.client, w.clock, "default-scheduler", series=True)
        meta = {"name": "train", "namespace": "default", "uid": "1"}
        for version, text in (("7", "none will do"), ("7", "still none"), ("8", "none of four")):
            waiting = {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "resourceVersion": version}}
            await recorder.warning(waiting, "FailedScheduling", text, action="Scheduling")
        told = [event for event in await w.items("events") if event["reason"] == "FailedScheduling"]
        found = {event["message"]: event.get("series", {}).get("count") for event in told}
        assert found == {"none will do": 2, "none of four": None}
