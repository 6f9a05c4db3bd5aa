"""A node from inside: what a pod with the node's root directory sees after ``chroot /host``."""

from kubesim.tests.containers import run
from kubesim.tests.world import container, pod, world


def debugger(name="look", **spec):
    mount = {"volumeMounts": [{"name": "host-root", "mountPath": "/host"}]}
    volumes = [{"name": "host-root", "hostPath": {"path": "/"}}]
    return pod(name, container("busybox:1.36", "sleep", "9999", **mount), volumes=volumes, hostPID=True, **spec)


async def inside(w, *command):
    return await run(w, "look", *command)


async def chrooted(w, script):
    status, out, err = await inside(w, "chroot", "/host", "bash", "-c", script)
    return out + err


async def test_the_node_has_its_own_files_devices_and_driver():
    async with world(1) as w:
        await w.create("pods", debugger())
        await w.tick(2)
        assert (await inside(w, "cat", "/etc/os-release"))[0] == 1
        assert "Ubuntu 22.04" in await chrooted(w, "cat /etc/os-release")
        assert (await chrooted(w, "ls /dev/nvidia0 /dev/nvidiactl")).split() == ["/dev/nvidia0", "/dev/nvidiactl"]
        assert (await chrooted(w, "nvidia-smi -L")).count("GPU ") == 8
        assert "NVRM version: NVIDIA UNIX" in await chrooted(w, "cat /proc/driver/nvidia/version")
        assert len((await chrooted(w, "ls /proc/driver/nvidia/gpus")).split()) == 8


async def test_without_the_nodes_root_there_is_neither_driver_nor_runtime():
    async with world(1) as w:
        await w.create("pods", debugger())
        await w.tick(2)
        assert (await inside(w, "sh", "-c", "ls /dev/nvidia0"))[0] == 2
        assert "read kernel buffer failed" in (await inside(w, "dmesg"))[2]
        assert (await inside(w, "chroot", "/nowhere"))[2] == (
            "chroot: cannot change root directory to '/nowhere': No such file or directory\n"
        )


async def test_the_kernels_and_the_units_journals_are_read():
    async with world(1) as w:
        await w.create("pods", debugger())
        await w.create("pods", pod("broken", container("busybox:1.36", "false")))
        await w.create("pods", pod("absent", container("busybox:1.36", "nosuch")))
        await w.tick(20)
        assert "nvidia-uvm: Loaded the UVM driver" in await chrooted(w, "dmesg")
        assert "nvidia-uvm: Loaded the UVM driver" in await chrooted(w, "journalctl -k")
        kubelet = await chrooted(w, "journalctl -u kubelet --no-pager")
        assert '"SyncLoop ADD" source="api" pods=["default/look"]' in kubelet
        assert 'failed to \\"StartContainer\\" for \\"main\\" with CrashLoopBackOff' in kubelet
        assert "StartContainer for" in await chrooted(w, "journalctl -u containerd")
        assert ".000000 " not in kubelet
        assert "Jan 01" not in kubelet
        assert await chrooted(w, "journalctl -u nosuch") == "-- No entries --\n"


async def test_units_tell_how_they_are():
    async with world(1) as w:
        await w.create("pods", debugger())
        await w.tick(2)
        assert "Active: active (running) since" in await chrooted(w, "systemctl status kubelet")
        assert await chrooted(w, "systemctl is-active containerd") == "active\n"
        assert await chrooted(w, "systemctl status nosuch") == "Unit nosuch.service could not be found.\n"


async def test_the_runtime_lists_containers_and_shows_their_logs():
    async with world(1) as w:
        await w.create("pods", debugger())
        await w.create("pods", pod("talk", container("busybox:1.36", "sh", "-c", "echo hello; sleep 999")))
        await w.create("pods", pod("over", container("busybox:1.36", "true"), restartPolicy="Never"))
        await w.tick(5)
        rows = (await chrooted(w, "crictl ps")).splitlines()
        assert rows[0].split()[:4] == ["CONTAINER", "IMAGE", "CREATED", "STATE"]
        assert {row.split()[-2] for row in rows[1:]} == {"look", "talk"}
        assert "over" in await chrooted(w, "crictl ps -a")
        assert "busybox" in await chrooted(w, "crictl images")
        assert await chrooted(w, "crictl logs $(crictl ps | awk '/talk/ {print $1}')") == "hello\n"
        assert "not found" in await chrooted(w, "crictl logs abcdef")
        for words in ("1234567890123", "--tail 5 1234567890123", "-f 1234567890123"):
            assert "1234567890123" in await chrooted(w, f"crictl logs {words}")


async def test_the_nodes_processes_are_seen_by_who_shares_them():
    async with world(1) as w:
        await w.create("pods", debugger())
        await w.tick(2)
        shown = await chrooted(w, "ps aux")
        assert "/usr/bin/kubelet" in shown
        assert "containerd-shim-runc-v2" in shown
        assert "/usr/bin/kubelet" in (await inside(w, "ps"))[1]
