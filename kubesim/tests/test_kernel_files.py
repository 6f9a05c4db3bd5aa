"""/proc and /sys of containers: the node's kernel, machine and driver, as the node itself tells of them."""

from __future__ import annotations

import re

import pytest

from kubesim import pools
from kubesim.tests.containers import run
from kubesim.tests.world import container, pod, world

GPUS = {"limits": {"nvidia.com/gpu": "2"}}
CUDA = "nvcr.io/nvidia/cuda:12.4.1-base-ubuntu22.04"


@pytest.fixture
async def w():
    async with world(count=1) as made:
        await made.create("pods", pod("train", container(CUDA, "sleep", "inf", resources=GPUS)))
        await made.create("pods", pod("plain", container("busybox:1.36", "sleep", "inf")))
        await made.tick(90)
        yield made


async def said(w, name, command):
    return (await run(w, name, "sh", "-c", command))[1]


async def test_a_container_sees_the_driver_and_the_devices_that_it_was_given(w):
    assert "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05" in await said(
        w, "train", "cat /proc/driver/nvidia/version"
    )
    told = await said(w, "train", "cat /proc/driver/nvidia/gpus/*/information")
    listed = await said(w, "train", "nvidia-smi -L")
    assert re.findall(r"GPU UUID: \t (\S+)", told) == re.findall(r"UUID: (\S+)\)", listed)
    assert told.count("Model: \t\t NVIDIA H100 80GB HBM3") == 2
    assert "ModifyDeviceFiles: 1\n" in await said(w, "train", "cat /proc/driver/nvidia/params")
    assert len((await said(w, "plain", "ls /proc/driver/nvidia/gpus")).split()) == 8


async def test_without_the_drivers_module_nothing_is_below_proc_driver(w):
    w.kubelets.gpus(w.node_names[0]).board.unload(w.clock.now(), "nvidia")
    assert (await run(w, "plain", "cat", "/proc/driver/nvidia/version"))[0] == 1


async def test_the_firmware_tells_of_the_clouds_machine_and_its_number_only_root(w):
    node = await w.client.get("nodes", w.node_names[0])
    assert await said(w, "plain", "cat /sys/class/dmi/id/product_name") == "Google Compute Engine\n"
    uuid = await said(w, "plain", "cat /sys/class/dmi/id/product_uuid")
    assert uuid.strip() == node["status"]["nodeInfo"]["systemUUID"]


async def test_the_kernel_is_that_which_the_node_tells_of(w):
    info = (await w.client.get("nodes", w.node_names[0]))["status"]["nodeInfo"]
    assert await said(w, "plain", "uname -r") == info["kernelVersion"] + "\n"
    assert await said(w, "plain", "cat /proc/sys/kernel/random/boot_id") == info["bootID"] + "\n"
    assert await said(w, "plain", "cat /proc/sys/kernel/osrelease") == info["kernelVersion"] + "\n"


async def test_every_processor_of_the_node_is_in_cpuinfo_and_sits_somewhere(w):
    told = await said(w, "plain", "cat /proc/cpuinfo")
    assert told.count("processor\t:") == 208
    assert {*re.findall(r"physical id\t: (\d+)", told)} == {"0", "1"}
    assert {*re.findall(r"siblings\t: (\d+)", told)} == {"104"}


async def test_mounts_tell_of_sysfs_and_the_control_group(w):
    told = await said(w, "plain", "cat /proc/self/mounts")
    assert "sysfs /sys sysfs ro,nosuid,nodev,noexec,relatime 0 0\n" in told
    assert "cgroup /sys/fs/cgroup cgroup2 ro,nosuid,nodev,noexec,relatime 0 0\n" in told
    assert len((await said(w, "plain", "cat /proc/self/stat")).split()) == 52


async def test_machines_of_no_cloud_have_other_firmware_and_another_kernel():
    async with world(count=0) as made:
        node = next(pools.Pool(1, 0, profile="plain").nodes(0, made.clock.now()))
        await made.kubelets.machines.add(node)
        await made.create("pods", pod("plain", container("busybox:1.36", "sleep", "inf")))
        await made.tick(30)
        assert await said(made, "plain", "cat /sys/class/dmi/id/sys_vendor") == "Supermicro\n"
        assert await said(made, "plain", "uname -r") == f"{pools.PLAIN_KERNEL}\n"


async def test_boot_uptime_and_the_kernels_log_agree_on_when_the_machine_has_booted(w):
    root = pod("root", container("ubuntu:22.04", "sleep", "inf", securityContext={"privileged": True}))
    root["spec"] |= {"hostPID": True, "volumes": [{"name": "host", "hostPath": {"path": "/"}}]}
    root["spec"]["containers"][0]["volumeMounts"] = [{"name": "host", "mountPath": "/host"}]
    await w.create("pods", root)
    await w.tick(60)
    booted = w.kubelets.gpus(w.node_names[0]).board.booted
    assert f"{booted:%Y-%m-%d %H:%M:%S}\n" == await said(w, "root", "uptime -s")
    assert (await said(w, "root", "chroot /host dmesg -T")).startswith(
        f"[{booted:%a %b %e %H:%M:%S %Y}] Linux version"
    )
