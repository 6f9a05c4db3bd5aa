"""Containers that want more memory than their limit: the kernel kills them, and everybody who looks can see it."""

import pytest

from kubesim.gpu.xids import dmesg
from kubesim.kubelet.footprint import processes
from kubesim.tests import counted_time, shell_world
from kubesim.tests.containers import log, run, state
from kubesim.tests.world import container, pod, world

TRAINING = ("nvcr.io/nvidia/pytorch:25.03-py3", "python", "train.py")


def limited(memory, image, *command, **more):
    return container(image, *command, resources={"limits": {"memory": memory}}, **more)


def kernel(w, obj):
    """Return the kernel log of a pod's node."""
    board = w.kubelets.machines.gpus(obj["spec"]["nodeName"]).board
    return "\n".join(dmesg(board.log, record) for record in board.log.records())


async def test_a_training_that_needs_more_than_its_limit_is_killed_as_it_warms_up():
    async with world(count=1) as w:
        await w.create("pods", pod("train", limited("768Mi", *TRAINING)))
        await w.tick(2)
        assert "running" in state(await w.pod())["state"]
        await w.tick(10)
        obj = await w.pod()
        ended = state(obj)["state"].get("terminated") or state(obj)["lastState"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
        assert "Traceback" not in log(w, "train")
        await w.tick(30)
        status = state(await w.pod())
        assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert status["lastState"]["terminated"]["reason"] == "OOMKilled"
        await w.check_models()


async def test_the_kernel_log_of_the_node_names_the_process_and_its_group():
    async with world(count=1) as w:
        await w.create("pods", pod("train", limited("512Mi", *TRAINING), restartPolicy="Never"))
        await w.tick(10)
        obj = await w.pod()
        assert obj["status"]["phase"] == "Failed"
        text, uid = kernel(w, obj), obj["metadata"]["uid"].replace("-", "_")
        assert "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=" in text
        group = f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice/cri-containerd-"
        assert f"oom_memcg={group}" in text
        assert "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-containerd-" in text
        assert "Memory cgroup out of memory: Killed process " in text


async def test_a_training_with_little_more_than_it_needs_lives_within_its_limit():
    async with world(count=1) as w:
        await w.create("pods", pod("train", limited("1Gi", *TRAINING)))
        await w.tick(120)
        assert "running" in state(await w.pod())["state"]
        assert state(await w.pod())["restartCount"] == 0


EATERS = {
    "tail": ("busybox:1.36", "tail", "/dev/zero"),
    "piped": ("busybox:1.36", "sh", "-c", "head -c 2G /dev/zero | tail"),
    "a variable": ("busybox:1.36", "sh", "-c", "x=aaaaaaaa; while true; do x=$x$x; done"),
    "python": ("python:3.12", "python3", "-c", "x='a'*10**10"),
    "a list": ("python:3.12", "python3", "-c", "l=[]\nwhile True:\n  l.append(' '*10**6)"),
    "stress": ("polinux/stress", "stress", "--vm", "1", "--vm-bytes", "250M", "--vm-hang", "1"),
}


@pytest.mark.parametrize("name", EATERS)
async def test_who_fills_its_memory_is_killed_with_everything_in_its_container(name):
    async with world(count=1) as w:
        await w.create("pods", pod("eater", limited("8Mi", *EATERS[name]), restartPolicy="Never"))
        await w.tick(10)
        obj = await w.pod()
        ended = state(obj)["state"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
        assert "Memory cgroup out of memory: Killed process" in kernel(w, obj)
        await w.check_models()


async def test_a_shell_that_somebody_has_opened_takes_its_container_along():
    async with world(count=1) as w:
        await w.create("pods", pod("web", limited("100Mi", "nginx:1.27")))
        await w.tick(2)
        status, _, _ = await run(w, "web", "sh", "-c", "tail /dev/zero; echo survived")
        assert status == 137
        await w.tick(2)
        obj = await w.pod()
        assert state(obj)["restartCount"] == 1
        assert state(obj)["lastState"]["terminated"]["reason"] == "OOMKilled"
        assert "running" in state(obj)["state"]


async def test_who_stays_within_its_limit_lives_and_its_memory_is_seen():
    async with world(count=1) as w:
        words = ("stress", "--vm", "1", "--vm-bytes", "150M", "--vm-hang", "1")
        await w.create("pods", pod("eater", limited("200Mi", "polinux/stress", *words)))
        await w.tick(30)
        assert "running" in state(await w.pod())["state"]
        assert log(w, "eater") == "stress: info: [1] dispatching hogs: 0 cpu, 0 io, 1 vm, 0 hdd\n"
        (used,) = used_by(w, "eater")
        assert 150 << 20 < used.memory(25) < 170 << 20


async def test_without_a_limit_a_program_goes_on_filling_its_node():
    async with world(count=1) as w:
        await w.create(
            "pods", pod("eater", container("busybox:1.36", "sh", "-c", "tail /dev/zero"), restartPolicy="Never")
        )
        await w.tick(15)
        assert "running" in state(await w.pod())["state"]
        (use,) = used_by(w, "eater")
        assert use.memory(15) > 8 << 30


def used_by(w, name):
    """Return what a pod's processes use."""
    (worker,) = [each for each in w.kubelets._workers.values() if each.record.name == name]
    return [process.usage for process in processes(worker)]


async def test_a_busy_container_uses_the_cores_that_it_may():
    async with world(count=1) as w:
        words = container("polinux/stress", "stress", "-c", "2", resources={"limits": {"cpu": "1"}})
        await w.create("pods", pod("busy", words))
        await w.create("pods", pod("idle", container("busybox:1.36", "sh", "-c", "sleep 600; true")))
        await w.tick(60)
        (busy,), (idle,) = used_by(w, "busy"), used_by(w, "idle")
        assert busy.cpu(40) == pytest.approx(1, abs=0.01)
        assert busy.cpu_seconds(40) - busy.cpu_seconds(20) == pytest.approx(20, abs=0.1)
        assert idle.cpu(40) < 0.002


def test_a_loop_that_never_rests_uses_a_core(monkeypatch):
    async def used():
        made = shell_world.machine("busybox")
        await shell_world.run("timeout 0.4 sh -c 'while :; do :; done'", "ash", made=made)
        busy = made.meter.total
        await shell_world.run("sleep 0.2", "ash", made=made)
        return busy, made.meter.total - busy

    busy, idle = counted_time.run(used(), monkeypatch)
    assert 0.35 < busy < 0.5
    assert idle < 0.05
