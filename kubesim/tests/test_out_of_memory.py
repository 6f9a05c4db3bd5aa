"""Containers that want more memory than their limit: the kernel kills them, and everybody who looks can see it."""

from kubesim.gpu.kernel_log import dmesg
from kubesim.tests.containers import log, state
from kubesim.tests.world import container, pod, world

TRAINING = ("nvcr.io/nvidia/pytorch:25.01-py3", "python", "train.py")


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
