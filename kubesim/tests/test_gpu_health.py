"""What becomes of a node whose GPUs fail: the device plugin marks them, the node has fewer to give, and recovers."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

import pytest
import yaml

from kubesim import clusterfile, kubelet
from kubesim.gpu.readings import read
from kubesim.tests.containers import run, state
from kubesim.tests.test_gpu_containers import trainer
from kubesim.tests.world import container, daemon_set, pod, world

PLUGIN = "nvcr.io/nvidia/k8s-device-plugin:v0.18.0"
GPU = "nvidia.com/gpu"


def board(w, number: int = 0):
    return w.kubelets.gpus(w.node_names[number]).board


async def counts(w, number: int = 0) -> tuple[str, str]:
    """Return what a node has, and has to give."""
    status = (await w.client.get("nodes", w.node_names[number]))["status"]
    return status["capacity"][GPU], status["allocatable"][GPU]


async def ready(w) -> str:
    node = await w.client.get("nodes", w.node_names[0])
    return next(item["status"] for item in node["status"]["conditions"] if item["type"] == "Ready")


@pytest.mark.parametrize("code", [48, 63, 64, 74, 79, 94, 95, 119])
async def test_an_xid_takes_its_device_from_what_the_node_has_to_give(code):
    async with world(count=1) as w:
        board(w).xid(3, code, w.clock.now())
        await w.tick(2)
        assert await counts(w) == ("8", "7")
        await w.check_models()


@pytest.mark.parametrize("code", [13, 31, 43, 45])
async def test_an_error_of_the_application_takes_nothing_from_the_node(code):
    async with world(count=1) as w:
        board(w).xid(3, code, w.clock.now())
        await w.tick(2)
        assert await counts(w) == ("8", "8")


async def test_a_pod_waits_for_a_device_that_is_well():
    async with world(count=1) as w:
        for device in range(8):
            board(w).xid(device, 79, w.clock.now())
        await w.tick(2)
        await w.create("pods", pod("late", trainer(1)))
        await w.tick(5)
        assert (await w.pod("late"))["status"]["phase"] == "Pending"
        (message,) = await w.messages("FailedScheduling")
        assert message == (
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: "
            "0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )


async def test_a_pod_that_was_bound_past_the_scheduler_is_refused_by_the_kubelet():
    async with world(count=1) as w:
        for device in range(7):
            board(w).xid(device, 48, w.clock.now())
        await w.create("pods", pod("forced", trainer(2), nodeName=w.node_names[0]))
        await w.tick(2)
        status = (await w.pod("forced"))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
        assert status["message"] == (
            "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
            "Requested: 2, Available: 1, which is unexpected"
        )


async def test_a_running_pod_stays_and_cannot_start_again_on_a_lost_device():
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(1)))
        await w.tick(60)
        board(w).xid(0, 79, w.clock.now())
        await w.tick(30)
        found = state(await w.pod("train"))
        assert found["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        ended = found["lastState"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
        assert ended["message"].endswith("nvidia-container-cli: detection error: nvml error: gpu is lost: unknown")


async def test_a_node_without_its_device_plugin_has_nothing_to_give_and_later_has_nothing():
    async with world(count=1) as w:
        plugin = daemon_set("plugin", PLUGIN)
        await w.create("daemonsets.apps", plugin)
        await w.tick(5)
        assert await counts(w) == ("8", "8")
        nowhere = {"template": {"spec": {"nodeSelector": {"no": "such"}}}}
        await w.client.patch("daemonsets.apps", "plugin", "default", {"spec": nowhere})
        await w.tick(40)
        assert await counts(w) == ("8", "0")
        await w.tick(320)
        assert await counts(w) == ("0", "0")
        somewhere = {"template": {"spec": {"nodeSelector": None}}}
        await w.client.patch("daemonsets.apps", "plugin", "default", {"spec": somewhere})
        await w.tick(20)
        assert await counts(w) == ("8", "8")


async def test_a_plugin_that_starts_again_finds_what_has_been_reset():
    async with world(count=1) as w:
        await w.create("daemonsets.apps", daemon_set("plugin", PLUGIN))
        await w.tick(5)
        board(w).xid(0, 95, w.clock.now())
        board(w).reset(0, w.clock.now())
        await w.tick(5)
        assert await counts(w) == ("8", "7")
        await w.client.delete("pods", (await w.pod("plugin"))["metadata"]["name"], "default")
        await w.tick(60)
        assert await counts(w) == ("8", "8")


async def test_a_reset_brings_a_device_back_where_no_pod_of_the_cluster_speaks_for_it():
    async with world(count=1) as w:
        board(w).xid(0, 95, w.clock.now())
        await w.tick(2)
        board(w).reset(0, w.clock.now())
        await w.tick(2)
        assert await counts(w) == ("8", "8")


async def test_a_reboot_silences_a_node_and_brings_its_devices_back():
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(1)))
        await w.tick(60)
        board(w).xid(0, 79, w.clock.now())
        await w.tick(5)
        before = (await w.client.get("nodes", w.node_names[0]))["status"]["nodeInfo"]["bootID"]
        w.kubelets.machines.reboot(w.node_names[0])
        await w.tick(65)
        assert await ready(w) == "Unknown"
        await w.tick(120)
        node = await w.client.get("nodes", w.node_names[0])
        assert node["status"]["nodeInfo"]["bootID"] != before
        assert await ready(w) == "True"
        assert any("has been rebooted, boot id: " in text for text in await w.messages("Rebooted"))
        assert await counts(w) == ("8", "8")
        await w.tick(300)
        assert (await w.pod("train"))["status"]["containerStatuses"][0]["state"].get("running")
        assert read(board(w).devices[0], w.clock.now()).util > 50


async def test_a_kubelet_that_has_booted_knows_of_no_back_off():
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(1)))
        for _ in range(8):
            w.kubelets.machines.reboot(w.node_names[0])
            await w.tick(120)
            assert (await w.pod("train"))["status"]["containerStatuses"][0]["state"].get("running")


async def test_a_privileged_container_of_any_image_has_the_devices_and_not_the_drivers_programs():
    async with world(count=1) as w:
        await w.create(
            "pods", pod("agent", container("debian:12", "sleep", "inf", securityContext={"privileged": True}))
        )
        await w.tick(5)
        assert (await run(w, "agent", "ls", "/dev/nvidia0"))[1] == "/dev/nvidia0\n"
        assert (await run(w, "agent", "sh", "-c", "nvidia-smi"))[2] == "sh: 1: nvidia-smi: not found\n"


async def test_a_reset_helps_where_the_firmware_does_not_answer_and_takes_its_time():
    async with world(count=1) as w:
        shell = container("nvidia/cuda:12.6.3-base-ubuntu22.04", "sleep", "inf", securityContext={"privileged": True})
        await w.create("pods", pod("agent", shell))
        await w.tick(5)
        board(w).xid(2, 119, w.clock.now())
        reset = asyncio.ensure_future(run(w, "agent", "nvidia-smi", "--gpu-reset", "-i", "2"))
        await w.tick(30)
        assert not reset.done()
        await w.tick(40)
        assert "was successfully reset" in (await reset)[1]
        assert (await run(w, "agent", "nvidia-smi", "-L"))[0] == 0


async def test_the_words_of_nvidia_smi_for_a_device_that_is_gone():
    async with world(count=1) as w:
        all_of_it = container(
            "nvidia/cuda:12.6.3-base-ubuntu22.04", "sleep", "inf", securityContext={"privileged": True}
        )
        await w.create("pods", pod("agent", all_of_it))
        await w.tick(5)
        board(w).xid(2, 79, w.clock.now())
        status, out, _ = await run(w, "agent", "nvidia-smi")
        assert out == "Unable to determine the device handle for GPU2: 0000:0A:00.0: Unknown Error\n"
        assert status == 255


async def test_what_is_wrong_with_devices_survives_a_restart_of_the_simulator():
    async with world(count=1) as w:
        board(w).xid(2, 79, w.clock.now())
        saved = json.loads(json.dumps(w.kubelets.changes()[f"gpus/{w.node_names[0]}"]))
        other = w.kubelets.gpus(w.node_names[0])
        other.__dict__.pop("board")
        other.restore(saved)
        assert other.board.devices[2].trouble.lost
        assert other.board.healthy() == {GPU: 7}


async def test_a_device_that_was_healed_just_before_a_restart_is_offered_after_it():
    async with world(count=1) as w:
        board(w).xid(2, 79, w.clock.now())
        await w.tick(5)
        board(w).repair(2, w.clock.now())
        state = json.loads(json.dumps(w.kubelets.changes()))
        await w.kubelets.stop()
        w.kubelets = await kubelet.start(w.client, w.clock, *w.node_names, state=state)
        assert await counts(w) == ("8", "7")
        await w.tick(5)
        assert await counts(w) == ("8", "8")


async def test_how_devices_are_given_survives_a_restart_of_the_simulator():
    async with world(count=1) as w:
        for name in ("first", "second"):
            await w.create("pods", pod(name, trainer(2)))
        await w.tick(60)
        await w.client.delete("pods", "first", "default")
        await w.tick(60)
        given = dict(board(w).given)
        assert [*given] == ["default/second/main"]
        saved = json.loads(json.dumps(w.kubelets.changes()[f"gpus/{w.node_names[0]}"]))
        other = w.kubelets.gpus(w.node_names[0])
        other.__dict__.pop("board")
        other.restore(saved)
        assert other.board.resources() == {GPU: 8}
        assert other.board.given == given
        other.keep([], w.clock.now())
        assert other.board.given == {}


async def test_where_gpu_nodes_are_tainted_as_gke_does_pods_with_gpus_tolerate_it():
    async with world(count=1) as w:
        await w.create("pods", pod("before", trainer(1)))
        taint = {"key": GPU, "value": "present", "effect": "NoSchedule"}
        pool = {"metadata": {"labels": {"cloud.google.com/gke-gpu": "true"}}, "spec": {"taints": [taint]}}
        await w.client.patch("nodes", w.node_names[0], "", pool)
        await w.create("pods", pod("asking", trainer(1)))
        await w.create("pods", pod("other", container("nginx:1.27")))
        await w.tick(10)
        tolerations = (await w.pod("asking"))["spec"]["tolerations"]
        assert {"key": GPU, "operator": "Exists", "effect": "NoSchedule"} in tolerations
        assert all(item.get("key") != GPU for item in (await w.pod("before"))["spec"]["tolerations"])
        assert (await w.pod("asking"))["status"]["phase"] == "Running"
        assert (await w.pod("other"))["status"]["phase"] == "Pending"


async def test_the_device_plugin_logs_what_it_makes_of_an_xid():
    async with world(count=1) as w:
        await w.create("daemonsets.apps", daemon_set("plugin", PLUGIN))
        await w.tick(5)
        board(w).xid(0, 79, w.clock.now())
        board(w).xid(1, 31, w.clock.now())
        await w.tick(2)
        name, first, second = (await w.pod("plugin"))["metadata"]["name"], *board(w).devices[:2]
        lines = w.kubelets.logs("default", name, "main").decode().splitlines()[-3:]
        klog = "I0105 09:00:05.000000       1"
        assert lines == [
            f"{klog} health.go:195] XidCriticalError: Xid=79 on Device={first.uuid}; marking device as unhealthy.",
            f"{klog} server.go:264] 'nvidia.com/gpu' device marked unhealthy: {first.uuid}",
            f"{klog} health.go:160] Skipping event {{Device:{second.uuid} EventType:8 EventData:31}}",
        ]


def test_a_pool_that_is_kept_for_gpus_is_labelled_as_gke_does(tmp_path):
    file = tmp_path / "cluster.yaml"
    taint = "{key: nvidia.com/gpu, value: present, effect: NoSchedule}"
    file.write_text(f"nodes:\n- {{count: 1, taints: [{taint}]}}\n- {{count: 1}}\n", encoding="utf-8")
    pools = clusterfile.read(file).pools
    made = [node for pool in pools for node in pool.nodes(0, datetime(2026, 1, 5, tzinfo=UTC))]
    assert [node["metadata"]["labels"].get("cloud.google.com/gke-gpu") for node in made] == ["true", None]


def test_the_operators_manifest_has_a_device_plugin():
    text = (clusterfile.ADDONS / "gpu-operator.yaml").read_text(encoding="utf-8")
    assert any(obj["metadata"]["name"] == "nvidia-device-plugin-daemonset" for obj in yaml.safe_load_all(text))
