"""Nodes that are short of memory or disk: their kubelets say so, reclaim what they can, and let pods go."""

import asyncio
import re

import pytest

from kubesim.conditions import condition_of
from kubesim.gpu.xids import dmesg
from kubesim.kubelet.eviction import MOST_PIDS, OWN_PIDS
from kubesim.kubelet.footprint import measure
from kubesim.kubelet.thresholds import WrongConfig, rules
from kubesim.network.fabric import Request
from kubesim.tests.containers import run, state
from kubesim.tests.world import container, deployment, pod, world

GIB = 1 << 30
SCRATCH = {"volumes": [{"name": "scratch", "emptyDir": {}}]}
MOUNT = [{"name": "scratch", "mountPath": "/scratch"}]


async def node(w, number=0):
    return await w.client.get("nodes", w.node_names[number])


async def pressures(w, number=0):
    found = (await node(w, number))["status"]["conditions"]
    return {c["type"]: (c["status"], c["reason"]) for c in found if c["type"].endswith("Pressure")}


async def taints(w, number=0):
    return [(t["key"], t["effect"]) for t in (await node(w, number))["spec"].get("taints") or ()]


def capacity(w, number=0):
    return w.kubelets.watches.of(w.node_names[number]).capacity


def room(w, number=0):
    return w.kubelets.watches.of(w.node_names[number]).node.disk.room


async def working_set(w, number=0):
    endpoint = w.kubelets.endpoint(w.node_names[number])
    page = (await endpoint.respond(Request("GET", "/metrics/resource"))).body.decode()
    return float(re.search(r"^node_memory_working_set_bytes (\S+)", page, re.M)[1])


def kernel(w, number=0):
    board = w.kubelets.machines.gpus(w.node_names[number]).board
    return "\n".join(dmesg(board.log, record) for record in board.log.records())


async def fill(w, name, size, path="/tmp/core"):
    assert (await run(w, name, "fallocate", "-l", size, path))[0] == 0


async def test_a_node_whose_disk_a_pod_fills_is_under_disk_pressure_and_lets_the_pod_go():
    async with world(count=1, present=()) as w:
        await w.create("pods", pod("quiet", container("nginx:1.27")))
        await w.create("pods", pod("writer", container("busybox:1.36", "sleep", "1d")))
        await w.tick(5)
        assert (await pressures(w))["DiskPressure"] == ("False", "KubeletHasNoDiskPressure")
        await fill(w, "writer", "75G")
        await w.tick(15)
        assert (await pressures(w))["DiskPressure"] == ("True", "KubeletHasDiskPressure")
        assert ("node.kubernetes.io/disk-pressure", "NoSchedule") in await taints(w)
        status = (await w.pod("writer"))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
        assert re.fullmatch(
            r"The node was low on resource: ephemeral-storage\. "
            r"Threshold quantity: 10120387530, available: \d+(Ki)?\. "
            r"Container main was using 7864\d{4}Ki, request is 0, has larger consumption of ephemeral-storage\. ",
            status["message"],
        )
        found = condition_of(status, "DisruptionTarget")
        assert (found["status"], found["reason"], found["message"]) == (
            "True",
            "TerminationByKubelet",
            status["message"],
        )
        assert (await w.pod("quiet"))["status"]["phase"] == "Running"
        (event,) = await w.events("Evicted")
        assert event["message"] == status["message"]
        assert event["metadata"]["annotations"]["starved_resource"] == "ephemeral-storage"
        assert event["metadata"]["annotations"]["offending_containers"] == "main"
        assert await w.messages("EvictionThresholdMet") == ["Attempting to reclaim ephemeral-storage"]
        assert await w.messages("FreeDiskSpaceFailed")
        await w.check_models()


async def test_the_pressure_is_over_five_minutes_after_its_cause():
    async with world(count=1, present=()) as w:
        await w.create("pods", pod("writer", container("busybox:1.36", "sleep", "1d")))
        await w.tick(5)
        await fill(w, "writer", "75G")
        await w.tick(20)
        assert (await pressures(w))["DiskPressure"][0] == "True"
        await w.tick(240)
        assert (await pressures(w))["DiskPressure"][0] == "True"
        await w.tick(90)
        assert (await pressures(w))["DiskPressure"] == ("False", "KubeletHasNoDiskPressure")
        assert await taints(w) == []
        assert w.kubelets.watches.of(w.node_names[0])._until is None


async def test_what_lies_in_a_volume_goes_with_its_pod():
    async with world(count=1, present=()) as w:
        await w.create("pods", pod("writer", container("busybox:1.36", "sleep", "1d", volumeMounts=MOUNT), **SCRATCH))
        await w.tick(5)
        before = room(w).used
        await fill(w, "writer", "75G", "/scratch/core")
        assert room(w).used - before == pytest.approx(75 * GIB, rel=0.01)
        await w.tick(20)
        assert (await w.pod("writer"))["status"]["reason"] == "Evicted"
        assert room(w).used == pytest.approx(before, rel=0.01)


async def test_a_controller_makes_another_pod_on_a_node_that_has_room():
    async with world(count=2, present=()) as w:
        await w.create("deployments.apps", deployment("web", replicas=1))
        await w.tick(40)
        (first,) = [p for p in await w.items("pods") if p["status"]["phase"] == "Running"]
        await fill(w, first["metadata"]["name"], "75G")
        await w.tick(30)
        running = [p for p in await w.items("pods") if p["status"]["phase"] == "Running"]
        assert [p["spec"]["nodeName"] != first["spec"]["nodeName"] for p in running] == [True]


async def test_a_node_that_is_short_of_memory_refuses_pods_that_ask_for_none():
    async with world(count=1, present=()) as w:
        watch = w.kubelets.watches.of(w.node_names[0])
        watch.use("memory", capacity(w) - 1540 * (1 << 20))
        await w.tick(15)
        assert (await pressures(w))["MemoryPressure"] == ("True", "KubeletHasInsufficientMemory")
        watch.use("memory", 0)
        bound = pod("poor", container("busybox:1.36", "sleep", "60"), nodeName=w.node_names[0])
        await w.create("pods", bound)
        asks = container("busybox:1.36", "sleep", "60", resources={"requests": {"memory": "8Mi"}})
        await w.create("pods", pod("rich", asks, nodeName=w.node_names[0]))
        await w.tick(5)
        status = (await w.pod("poor"))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "Evicted")
        assert status["message"] == "Pod was rejected: The node had condition: [MemoryPressure]. "
        assert (await w.pod("rich"))["status"]["phase"] == "Running"


async def test_who_uses_most_beyond_its_request_goes_first():
    async with world(count=1, present=()) as w:
        whole = capacity(w)
        asks = {"requests": {"memory": str(900 * GIB)}}
        await w.create("pods", pod("asks", container("polinux/stress", "sleep", "1d", resources=asks)))
        await w.create("pods", pod("takes", container("polinux/stress", "sleep", "1d")))
        await w.tick(5)
        watch = w.kubelets.watches.of(w.node_names[0])
        for name, size in (("asks", 850 * GIB), ("takes", watch.allocatable - 850 * GIB + 50 * (1 << 20))):
            machine = w.kubelets._workers[f"default/{name}"].sandbox.entered(
                w.kubelets._workers[f"default/{name}"].record.main[0]
            )
            first = next(iter(machine.processes.values()))
            first.held = size
        watch.grown()
        await w.tick(20)
        gone = (await w.pod("takes"))["status"]
        assert (gone["phase"], gone["reason"]) == ("Failed", "Evicted")
        assert "The node was low on resource: memory. Threshold quantity: 100Mi, available: " in gone["message"]
        assert "Container main was using " in gone["message"]
        assert gone["message"].endswith(", request is 0, has larger consumption of memory. ")
        assert (await w.pod("asks"))["status"]["phase"] == "Running"
        assert whole > watch.allocatable


async def test_critical_pods_are_spared():
    async with world(count=1, present=()) as w:
        vital = pod("vital", container("busybox:1.36", "sleep", "1d"), nodeName=w.node_names[0])
        vital["metadata"]["annotations"] = {
            "kubernetes.io/config.mirror": "a1",
            "kubernetes.io/config.source": "file",
        }
        await w.create("pods", vital)
        await w.tick(5)
        await fill(w, "vital", "75G")
        await w.tick(30)
        assert (await pressures(w))["DiskPressure"][0] == "True"
        assert await w.events("Evicted") == []


async def test_a_process_that_takes_all_memory_at_once_is_killed_by_the_kernel():
    async with world(count=1, present=()) as w:
        await w.create("pods", pod("eater", container("busybox:1.36", "sleep", "1d"), restartPolicy="Never"))
        await w.tick(5)
        watch = w.kubelets.watches.of(w.node_names[0])
        watch.use("memory", watch.capacity - 20 * GIB)
        worker = w.kubelets._workers["default/eater"]
        first = next(iter(worker.sandbox.entered(worker.record.main[0]).processes.values()))
        await first.claim(30 * GIB)
        await w.tick(5)
        ended = state(await w.pod())["state"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
        text = kernel(w)
        assert "sleep invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP)" in text
        assert "constraint=CONSTRAINT_NONE" in text
        assert "global_oom" in text
        assert "Out of memory: Killed process " in text
        (told,) = await w.messages("SystemOOM")
        assert told.startswith("System OOM encountered, victim process: sleep, pid: ")


async def test_pods_that_outgrow_what_is_theirs_are_killed_in_their_group():
    async with world(count=1, present=()) as w:
        await w.create("pods", pod("eater", container("busybox:1.36", "sleep", "1d"), restartPolicy="Never"))
        await w.tick(5)
        watch = w.kubelets.watches.of(w.node_names[0])
        worker = w.kubelets._workers["default/eater"]
        first = next(iter(worker.sandbox.entered(worker.record.main[0]).processes.values()))
        await first.claim(watch.for_pods + GIB)
        await w.tick(5)
        assert state(await w.pod())["state"]["terminated"]["reason"] == "OOMKilled"
        assert "oom_memcg=/kubepods.slice,task_memcg=/kubepods.slice/kubepods-besteffort.slice/" in kernel(w)
        assert await w.messages("SystemOOM") == []


async def test_a_program_that_grows_is_evicted_before_the_kernel_has_to():
    async with world(count=1, present=()) as w:
        await w.create("pods", pod("eater", container("busybox:1.36", "tail", "/dev/zero"), restartPolicy="Never"))
        await w.tick(5)
        assert (await w.pod())["status"]["phase"] == "Running"
        await w.tick(600)
        status = (await w.pod())["status"]
        assert status["phase"] == "Failed"
        assert (
            status.get("reason") == "Evicted" or state(await w.pod())["state"]["terminated"]["reason"] == "OOMKilled"
        )


async def test_images_that_nobody_uses_go_before_any_pod():
    async with world(count=1, present=()) as w:
        await w.create("pods", pod("old", container("nginx:1.27"), nodeName=w.node_names[0]))
        await w.create("pods", pod("writer", container("busybox:1.36", "sleep", "1d")))
        await w.tick(5)
        await w.client.delete("pods", "old", "default", grace_seconds=0)
        await w.tick(180)
        watch = w.kubelets.watches.of(w.node_names[0])
        assert "nginx:1.27" in watch.node.images
        room = w.kubelets._nodes[w.node_names[0]].disk.room
        least = int(room.limit * 0.15)
        await fill(w, "writer", str(room.limit - room.look() - least + 20_000_000))
        await w.tick(15)
        assert "nginx:1.27" not in watch.node.images
        assert "busybox:1.36" in watch.node.images
        assert (await w.pod("writer"))["status"]["phase"] == "Running"
        assert await w.events("Evicted") == []
        assert await w.events("EvictionThresholdMet")


async def test_an_idle_node_is_not_looked_at():
    async with world(count=3) as w:
        await w.create("deployments.apps", deployment("web"))
        await w.tick(120)
        assert not w.kubelets.watches._queue._timers


async def test_what_somebody_writes_on_the_node_itself_fills_it_as_well():
    async with world(count=1, present=()) as w:
        mount = {"volumeMounts": [{"name": "root", "mountPath": "/host"}]}
        volumes = [{"name": "root", "hostPath": {"path": "/"}}]
        await w.create("pods", pod("look", container("busybox:1.36", "sleep", "1d", **mount), volumes=volumes))
        await w.tick(5)
        script = "fallocate -l 60G /var/tmp/hog && df -h / && fallocate -l 60G /var/tmp/more"
        status, out, err = await run(w, "look", "chroot", "/host", "bash", "-c", script)
        assert (status, err) == (1, "fallocate: fallocate failed: No space left on device\n")
        assert re.search(r"/dev/sda1 +95G +72G +24G +76% /", out)
        await run(w, "look", "chroot", "/host", "fallocate", "-l", "12G", "/var/tmp/more")
        await w.tick(15)
        assert (await pressures(w))["DiskPressure"][0] == "True"
        await w.tick(30)
        assert (await w.pod("look"))["status"]["reason"] == "Evicted"
        await w.tick(600)
        assert (await pressures(w))["DiskPressure"][0] == "True"
        await w.create("pods", pod("nurse", container("busybox:1.36", "sleep", "1d", **mount), volumes=volumes))
        await w.tick(5)
        assert "untolerated taint" in condition_of((await w.pod("nurse"))["status"], "PodScheduled")["message"]


async def test_dd_fills_a_disk_as_fast_as_one_takes_it_and_says_so():
    async with world(count=1, present=()) as w:
        await w.create("pods", pod("writer", container("debian:12", "sleep", "1d")))
        await w.tick(5)
        started = w.clock.now()
        script = "dd if=/dev/zero of=/tmp/big bs=1M count=5000; stat -c %s /tmp/big; du -sm /tmp"
        copying = asyncio.ensure_future(run(w, "writer", "sh", "-c", script))
        await w.tick(30)
        _, out, err = await copying
        assert "5000+0 records in\n5000+0 records out\n5242880000 bytes (5.2 GB, 4.9 GiB) copied, " in err
        assert out.split() == ["5242880000", "5001", "/tmp"]
        assert (w.clock.now() - started).total_seconds() == 30


async def test_a_large_file_keeps_what_was_written_at_its_head():
    async with world(count=1, present=()) as w:
        await w.create("pods", pod("writer", container("debian:12", "sleep", "1d")))
        await w.tick(5)
        script = "echo hello > /tmp/f; fallocate -l 10G /tmp/f; head -c 8 /tmp/f; du -sk /tmp/f; ls -l /tmp/f"
        _, out, _ = await run(w, "writer", "sh", "-c", script)
        assert out.startswith("hello\n\0\0")
        assert "10737418240" in out


async def test_a_kubelet_takes_its_thresholds_from_the_file_on_its_node_when_it_is_started_again():
    async with world(count=1, present=()) as w:
        mount = {"volumeMounts": [{"name": "root", "mountPath": "/host"}]}
        volumes = [{"name": "root", "hostPath": {"path": "/"}}]
        await w.create("pods", pod("look", container("busybox:1.36", "sleep", "1d", **mount), volumes=volumes))
        await w.tick(5)
        script = "sed -i 's/memory.available: 100Mi/memory.available: 99%/' /etc/kubernetes/kubelet-config.yaml"
        assert await run(w, "look", "chroot", "/host", "bash", "-c", script) == (0, "", "")
        await w.tick(60)
        assert (await pressures(w))["MemoryPressure"][0] == "False"
        w.kubelets.watches.of(w.node_names[0]).use("memory", 90 * GIB)
        await run(w, "look", "chroot", "/host", "systemctl", "restart", "kubelet")
        await w.tick(15)
        assert (await pressures(w))["MemoryPressure"] == ("True", "KubeletHasInsufficientMemory")
        status = (await w.pod("look"))["status"]
        assert status["reason"] == "Evicted"
        assert "The node was low on resource: memory. Threshold quantity: 1985" in status["message"]


async def test_a_wrong_configuration_is_refused_with_the_kubelets_words():
    with pytest.raises(WrongConfig, match="unsupported eviction signal disk.available"):
        rules({"evictionHard": {"disk.available": "10%"}})


async def test_many_processes_leave_a_node_short_of_process_numbers():
    async with world(count=1, present=()) as w:
        bomb = "i=0; while [ $i -lt 100 ]; do sleep 1d & i=$((i+1)); done; wait"
        await w.create("pods", pod("bomb", container("busybox:1.36", "sh", "-c", bomb)))
        await w.create("pods", pod("quiet", container("nginx:1.27")))
        await w.tick(5)
        watch = w.kubelets.watches.of(w.node_names[0])
        watch.configure({"evictionHard": {"pid.available": str(MOST_PIDS - 300)}})
        await w.tick(15)
        assert (await pressures(w))["PIDPressure"] == ("True", "KubeletHasInsufficientPID")
        status = (await w.pod("bomb"))["status"]
        assert status["message"] == (
            f"The node was low on resource: pids. Threshold quantity: {MOST_PIDS - 300}, "
            f"available: {MOST_PIDS - OWN_PIDS - 104}. "
        )
        assert (await w.pod("quiet"))["status"]["phase"] == "Running"


async def test_the_journal_of_the_kubelet_tells_of_an_eviction():
    async with world(count=1, present=()) as w:
        mount = {"volumeMounts": [{"name": "root", "mountPath": "/host"}]}
        asks = {"resources": {"requests": {"ephemeral-storage": "1Gi"}}}
        look = pod("look", container("busybox:1.36", "sleep", "1d", **mount, **asks))
        look["spec"]["volumes"] = [{"name": "root", "hostPath": {"path": "/"}}]
        await w.create("pods", look)
        await w.create("pods", pod("writer", container("busybox:1.36", "sleep", "1d")))
        await w.tick(5)
        await fill(w, "writer", "75G")
        await w.tick(15)
        _, out, _ = await run(w, "look", "chroot", "/host", "journalctl", "-u", "kubelet")
        assert '"Eviction manager: must evict pod(s) to reclaim" resourceName="ephemeral-storage"' in out
        assert '"Eviction manager: pod is evicted successfully" pod="default/writer"' in out


async def test_a_copy_of_a_large_file_is_as_large():
    async with world(count=1, present=()) as w:
        await w.create("pods", pod("writer", container("debian:12", "sleep", "1d")))
        await w.tick(5)
        script = "cd /tmp; fallocate -l 10G a; cp a b; mv b c; du -k a c; rm a c; du -s ."
        status, out, err = await run(w, "writer", "sh", "-c", script)
        assert (status, err) == (0, "")
        assert out.splitlines() == ["10485760\ta", "10485760\tc", "4\t."]


async def test_everybody_who_tells_of_a_node_tells_the_same_numbers():
    async with world(count=1, present=()) as w:
        await w.create("pods", pod("look", container("debian:12", "sleep", "1d")))
        await w.create("pods", pod("eater", container("polinux/stress", "stress", "--vm", "1", "--vm-bytes", "60G")))
        await w.tick(40)
        await fill(w, "look", "20G")
        working, at = await working_set(w), w.clock.now().timestamp()
        assert working == pytest.approx(60 * GIB + (1480 << 20), rel=0.001)
        _, out, _ = await run(w, "look", "sh", "-c", "free -b; df -B1 / 2>/dev/null || df -k /")
        rows = [line.split() for line in out.splitlines()]
        assert int(rows[1][6]) == capacity(w) - working
        assert int(rows[-1][2]) * 1024 == pytest.approx(room(w).used, abs=4096)
        assert w.kubelets._nodes[w.node_names[0]].ledger.now(at).available == capacity(w) - working
        seen = w.kubelets.watches.of(w.node_names[0])
        use = seen.observe([measure(worker, at) for worker in seen.workers()])
        assert use["memory.available"].available == pytest.approx(capacity(w) - working, abs=2)
        assert use["nodefs.available"].available == room(w).limit - room(w).used


@pytest.mark.parametrize("path", ["/dev/termination-log", "/etc/resolv.conf", "/etc/hosts", "/tmp/script"])
async def test_a_large_file_where_the_kubelet_looks_does_no_harm(path):
    async with world(count=1, present=()) as w:
        script = f"fallocate -l 2G {path}; head -c 3 {path}; exit 3"
        await w.create("pods", pod("odd", container("busybox:1.36", "sh", "-c", script), restartPolicy="Never"))
        await w.tick(60)
        ended = state(await w.pod())["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (3, "Error")
