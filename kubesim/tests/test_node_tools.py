"""The tools of a node: what they tell agrees with its devices, its pods and its services."""

from kubesim.tests.containers import run
from kubesim.tests.test_rooted import chrooted, debugger
from kubesim.tests.world import container, pod, world


def privileged(**spec):
    context = {"securityContext": {"privileged": True}}
    return pod(
        "strong", container("ubuntu:22.04", "sleep", "9999", **context), hostPID=True, hostNetwork=True, **spec
    )


async def debugging(w, **spec):
    await w.create("pods", debugger(**spec))
    await w.tick(5)


def board(w):
    (name,) = w.kubelets._nodes
    return w.kubelets.gpus(name).board


async def test_the_drivers_modules_are_loaded_and_in_use():
    async with world(1) as w:
        await debugging(w)
        shown = {line.split()[0]: line.split() for line in (await chrooted(w, "lsmod")).splitlines()}
        assert shown["nvidia"][3] == "nvidia_uvm,nvidia_modeset"
        assert int(shown["nvidia_uvm"][2]) == 0
        assert await chrooted(w, "modinfo -F version nvidia") == "580.95.05\n"
        assert (await chrooted(w, "modinfo nosuch")) == "modinfo: ERROR: Module nosuch not found.\n"
        assert (await chrooted(w, "grep ^nvidia_uvm /proc/modules")).startswith("nvidia_uvm 1884160 0 -")


async def test_a_device_that_has_fallen_off_the_bus_reads_as_ones():
    async with world(1) as w:
        await debugging(w)
        lines = (await chrooted(w, "lspci -d 10de:2330")).splitlines()
        assert len(lines) == 8
        assert lines[0] == "04:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)"
        board(w).xid(0, 79, w.clock.now())
        assert (await chrooted(w, "lspci -s 04:00.0")).endswith("(rev ff)\n")
        assert "!!! Unknown header type 7f" in await chrooted(w, "lspci -v -s 04:00.0")
        assert "(rev a1)" in await chrooted(w, "lspci -s 05:00.0")


async def test_lspci_and_sysfs_tell_of_a_narrow_link():
    async with world(1) as w:
        await debugging(w)
        assert "LnkSta:\tSpeed 32GT/s (ok), Width x16 (ok)" in await chrooted(w, "lspci -vv -s 04:00.0")
        board(w).devices[0].suffer(w.clock.now(), narrow=(5, 8))
        assert "Width x8 (downgraded)" in await chrooted(w, "lspci -vv -s 04:00.0")
        assert await chrooted(w, "cat /sys/bus/pci/devices/0000:04:00.0/current_link_width") == "8\n"


async def test_memory_nodes_are_those_of_nvidia_smis_topology():
    async with world(1) as w:
        await debugging(w)
        assert "NUMA node1 CPU(s):             52-103,156-207" in await chrooted(w, "lscpu")


async def test_only_a_privileged_container_enters_the_nodes_namespaces():
    async with world(1) as w:
        await debugging(w)
        await w.create("pods", privileged())
        await w.tick(5)
        words = ("nsenter", "-t", "1", "-m", "-u", "-i", "-n", "-p", "--")
        assert (await run(w, "strong", *words, "systemctl", "is-active", "kubelet"))[1] == "active\n"
        assert "Ubuntu 22.04" in (await run(w, "strong", *words, "cat", "/etc/os-release"))[1]
        assert (await run(w, "strong", *words, "nvidia-smi", "-L"))[1].count("GPU ") == 8
        assert (await run(w, "look", *words, "true")) == (
            1,
            "",
            "nsenter: cannot open /proc/1/ns/mnt: Permission denied\n",
        )


async def test_the_node_has_its_configuration_and_the_logs_of_its_pods():
    async with world(1) as w:
        await debugging(w)
        await w.create("pods", pod("talk", container("busybox:1.36", "sh", "-c", "echo hello; sleep 999")))
        await w.tick(5)
        assert await chrooted(w, "cat /etc/hostname") == f"{board(w).node}\n"
        assert "cgroupDriver: systemd" in await chrooted(w, "cat /var/lib/kubelet/config.yaml")
        assert "nvidia-container-runtime" in await chrooted(w, "cat /etc/containerd/config.toml")
        assert (await chrooted(w, "cat /var/log/containers/talk_default_main-*.log")).endswith(" stdout F hello\n")
        assert "default_talk_" in await chrooted(w, "ls /var/log/pods")
        assert (await chrooted(w, "mount")).startswith("/dev/sda1 on / type ext4")


async def test_units_are_told_of_as_systemd_does():
    async with world(1) as w:
        await debugging(w)
        assert "nvidia-fabricmanager.service" in await chrooted(w, "systemctl list-units")
        assert await chrooted(w, "systemctl is-active kubelet containerd") == "active\nactive\n"
        assert await chrooted(w, "systemctl --failed") == "0 loaded units listed.\n"
        pid = (await chrooted(w, "pgrep -x kubelet")).strip()
        assert f"Main PID: {pid} (kubelet)" in await chrooted(w, "systemctl status kubelet")


async def test_a_node_tells_what_it_is_set_to():
    async with world(1) as w:
        await debugging(w)
        assert await chrooted(w, "sysctl net.ipv4.ip_forward") == "net.ipv4.ip_forward = 1\n"
        assert await chrooted(w, "sysctl -n kernel.pid_max") == "4194304\n"
        assert "cannot stat /proc/sys/no/such" in await chrooted(w, "sysctl no.such")


async def test_who_computes_is_found_and_the_kernels_files_agree():
    async with world(1) as w:
        await debugging(w, hostNetwork=True)
        limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
        image = "nvcr.io/nvidia/pytorch:24.10-py3"
        await w.create("pods", pod("train", container(image, "torchrun", "--nproc_per_node=1", "train.py", **limits)))
        await w.tick(30)
        pid = (await chrooted(w, "nvidia-smi --query-compute-apps=pid --format=csv,noheader")).strip()
        assert f"{pid} " in await chrooted(w, "ps -e")
        assert "fuser: command not found" in await chrooted(w, "fuser -v /dev/nvidia0 2>&1")
        assert (await chrooted(w, "uname -v")).strip() in await chrooted(w, "cat /proc/version")
        assert (await chrooted(w, "cat /proc/cmdline")).strip() in await chrooted(w, "dmesg | head -2")
        assert (await chrooted(w, "head -1 /proc/mounts")).startswith("/dev/sda1 / ext4 ")
        board(w).xid(0, 79, w.clock.now())
        assert "fallen off the bus" in await chrooted(w, "grep 'Xid.*79' /var/log/kern.log")
        assert await chrooted(w, "curl -s localhost:10248/healthz") == "ok"
        await chrooted(w, "echo '<3>NVRM: hello' > /dev/kmsg")
        assert "NVRM: hello" in await chrooted(w, "dmesg | tail -1")
        assert "open files                          (-n) 1048576\n" in await chrooted(w, "ulimit -a")
