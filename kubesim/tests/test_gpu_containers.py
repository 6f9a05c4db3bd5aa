"""Containers with GPUs: what they are given, what they see, what their work does, and what a fault does to them."""

from __future__ import annotations

import asyncio

import pytest

from kubesim.gpu.readings import read
from kubesim.tests.test_containers import log, run, state
from kubesim.tests.world import container, pod, world

PYTORCH = "nvcr.io/nvidia/pytorch:25.03-py3"


def trainer(
    count: int = 1, image: str = PYTORCH, command: tuple[str, ...] = ("python", "/workspace/train.py"), **more
):
    return container(image, *command, resources={"limits": {"nvidia.com/gpu": str(count)}}, **more)


async def gpus(w, name):
    found = await w.pod(name)
    return w.kubelets.gpus(found["spec"]["nodeName"])


async def test_a_container_sees_the_devices_it_was_given():
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(2)))
        await w.tick(60)
        status, out, _ = await run(w, "train", "nvidia-smi", "-L")
        assert (status, out.count("NVIDIA H100 80GB HBM3")) == (0, 2)
        files = (await run(w, "train", "sh", "-c", "cd /dev; ls -d nvidia*"))[1].split()
        assert files == ["nvidia-uvm", "nvidia-uvm-tools", "nvidia0", "nvidia1", "nvidiactl"]
        devices = (await gpus(w, "train")).board.devices
        _, env, _ = await run(w, "train", "printenv", "NVIDIA_VISIBLE_DEVICES")
        assert env.strip() == ",".join(device.uuid for device in devices[:2])


async def test_a_container_without_a_gpu_has_no_driver():
    async with world(count=1) as w:
        await w.create("pods", pod("plain", container("nginx:1.27")))
        await w.tick(2)
        status, _, errors = await run(w, "plain", "sh", "-c", "nvidia-smi")
        assert status == 127
        assert "not found" in errors


async def test_training_fills_and_heats_its_devices_and_no_others():
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(2)))
        await w.tick(120)
        readings = [read(device, w.clock.now()) for device in (await gpus(w, "train")).board.devices]
        assert [reading.util > 85 for reading in readings] == [True, True] + [False] * 6
        assert readings[0].temperature > readings[7].temperature + 10
        _, out, _ = await run(w, "train", "nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
        assert int(out.split()[0]) > 60000


async def test_a_pod_that_goes_gives_its_devices_back():
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(8), terminationGracePeriodSeconds=1))
        await w.tick(60)
        board = (await gpus(w, "train")).board
        assert len(board.given) == 1
        await w.client.delete("pods", "train", "default")
        await w.tick(5)
        assert not board.given
        assert not any(device.tasks for device in board.devices)
        await w.create("pods", pod("next", trainer(8)))
        await w.tick(60)
        assert (await w.pod("next"))["status"]["phase"] == "Running"


async def test_a_restarted_container_keeps_its_devices():
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(3)))
        await w.tick(60)
        board = (await gpus(w, "train")).board
        before = board.given["default/train/main"]
        board.xid(0, 94, w.clock.now())
        await w.tick(60)
        assert state(await w.pod("train"))["restartCount"] == 1
        assert board.given["default/train/main"] == before
        assert board.devices[0].tasks


@pytest.mark.parametrize(
    ("code", "text"),
    [(79, "unspecified launch failure"), (48, "uncorrectable ECC error encountered"), (31, "illegal memory")],
)
async def test_an_event_ends_the_process_with_the_error_that_cuda_gives(code, text):
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(), restartPolicy="Never"))
        await w.tick(60)
        (await gpus(w, "train")).board.xid(0, code, w.clock.now())
        await w.tick(5)
        ended = state(await w.pod("train"))["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (1, "Error")
        lines = log(w, "train").splitlines()
        assert any(line.startswith("INFO:root:step") for line in lines)
        assert any(line.startswith("RuntimeError: CUDA error: ") and text in line for line in lines)
        await w.check_models()


async def test_only_a_privileged_container_reads_the_kernels_log():
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer()))
        agent = container("debian:12", "sleep", "3600", securityContext={"privileged": True})
        await w.create("pods", pod("agent", agent))
        await w.tick(60)
        (await gpus(w, "train")).board.xid(0, 79, w.clock.now())
        status, _, errors = await run(w, "train", "dmesg")
        assert status == 1
        assert errors == "dmesg: read kernel buffer failed: Operation not permitted\n"
        _, out, _ = await run(w, "agent", "sh", "-c", "dmesg | grep Xid")
        assert "NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus." in out
        _, out, _ = await run(w, "agent", "dmesg", "-T", "--level=err")
        assert out.startswith("[")


async def test_nvidia_smi_refuses_what_it_does_not_know():
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer()))
        await w.tick(60)
        assert (await run(w, "train", "nvidia-smi", "--frobnicate"))[0] == 2
        assert (await run(w, "train", "nvidia-smi", "-mig", "1"))[0] == 4


async def test_what_is_followed_has_its_heading_once_and_can_go_to_a_file():
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer()))
        await w.tick(60)
        for script, heads in (("nvidia-smi dmon -c 3", 2), ("nvidia-smi pmon -c 3 -d 1", 2)):
            following = asyncio.ensure_future(run(w, "train", "sh", "-c", f"{script} -f /tmp/out; cat /tmp/out"))
            for _ in range(10):
                await w.tick(1)
            status, out, _ = await following
            assert (status, len(out.splitlines())) == (0, heads + 3)
