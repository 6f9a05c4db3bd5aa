"""The services of a node: what follows where its kubelet, its runtime or its fabric manager is stopped."""

import json

import orjson
import pytest

from kubesim import kubelet
from kubesim.conditions import condition_of
from kubesim.shell.tools.journalctl import Wrong, moment
from kubesim.streaming.seam import Refused
from kubesim.tests.containers import run
from kubesim.tests.test_rooted import chrooted, debugger
from kubesim.tests.world import container, pod, world

KIND = "kind: KubeletConfiguration\n"
BOMB = "".join(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9) if at else 1}]\n" for at in range(9))
CONFIG = "/etc/kubernetes/kubelet-config.yaml"


def trainer():
    limits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return container("nvcr.io/nvidia/pytorch:24.10-py3", "torchrun", "--nproc_per_node=1", "train.py", **limits)


def services(w):
    """Return the services of the node, as systemd has them."""
    return w.kubelets._nodes[w.node_names[0]].agents.services


async def ready(w):
    found = condition_of((await w.client.get("nodes", w.node_names[0]))["status"], "Ready")
    return found["status"], found["reason"], found["message"]


async def debugging(w):
    await w.create("pods", debugger())
    await w.tick(5)


def board(w):
    return w.kubelets.gpus(w.node_names[0]).board


async def test_a_node_whose_kubelet_was_stopped_is_lost_until_it_is_started():
    async with world(1) as w:
        await debugging(w)
        await w.create("pods", pod("flaky", container("busybox:1.36", "sh", "-c", "sleep 20; exit 1")))
        await w.tick(5)
        assert (
            await chrooted(w, "systemctl stop kubelet; systemctl is-active kubelet; pgrep -x kubelet") == "inactive\n"
        )
        assert w.kubelets.away(w.node_names[0]) == "dial tcp 10.128.0.2:10250: connect: connection refused"
        await w.tick(70)
        assert await ready(w) == ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
        assert (await w.pod("flaky"))["status"]["containerStatuses"][0]["restartCount"] == 0
        await chrooted(w, "systemctl start kubelet")
        await w.tick(30)
        assert await ready(w) == ("True", "KubeletReady", "kubelet is posting ready status")
        assert (await w.pod("flaky"))["status"]["containerStatuses"][0]["restartCount"] >= 1
        assert "Starting kubelet." in await w.messages("Starting")
        said = await chrooted(w, "journalctl -u kubelet -o cat | grep -v '^I'")
        assert "Stopping Kubernetes kubelet...\nkubelet.service: Deactivated successfully.\n" in said


async def test_without_its_runtime_a_node_is_not_ready_and_nothing_starts_on_it():
    async with world(1) as w:
        await debugging(w)
        await w.create("pods", pod("web", container("nginx:1.27")))
        await w.tick(5)
        services(w).stop("containerd")
        with pytest.raises(Refused, match="dial unix /run/containerd/containerd.sock"):
            w.kubelets.containers.exec(await w.pod("web"), "main", ["true"])
        await w.tick(45)
        assert await ready(w) == ("False", "KubeletNotReady", "container runtime is down")
        await w.tick(150)
        assert (await ready(w))[2].startswith(
            "[container runtime is down, PLEG is not healthy: pleg was last seen active 3m"
        )
        await w.create("pods", pod("late", tolerations=[{"operator": "Exists"}]))
        await w.tick(20)
        assert (await w.pod("late"))["status"]["phase"] == "Pending"
        services(w).start("containerd")
        await w.tick(30)
        assert (await ready(w))[0] == "True"
        assert (await w.pod("late"))["status"]["phase"] == "Running"


async def test_a_kubelet_with_a_wrong_configuration_ends_again_and_again_until_it_is_right():
    async with world(1) as w:
        await debugging(w)
        await chrooted(w, f"cp {CONFIG} /tmp/good; sed -i 's/maxPods: 110/maxPods: many/' {CONFIG}")
        assert await chrooted(w, "systemctl restart kubelet; echo $?") == "0\n"
        status = await chrooted(w, "systemctl status kubelet")
        assert "Active: activating (auto-restart) (Result: exit-code) since" in status
        assert "(code=exited, status=1/FAILURE)" in status
        await w.tick(25)
        said = await chrooted(w, "journalctl -u kubelet --since '1 min ago' -o cat")
        assert (
            f'run.go:72] "command failed" err="failed to load kubelet config file, path: {CONFIG}, error: failed to '
            f"load Kubelet config file {CONFIG}, error failed to decode: json: cannot unmarshal string into Go "
            'struct field KubeletConfiguration.maxPods of type int32"'
        ) in said
        assert "kubelet.service: Scheduled restart job, restart counter is at 2." in said
        await w.tick(60)
        assert (await ready(w))[0] == "Unknown"
        await chrooted(w, f"cp /tmp/good {CONFIG}")
        await w.tick(25)
        assert (await ready(w))[0] == "True"


async def test_each_mistake_in_a_configuration_is_told_in_the_kubelets_words():
    mistakes = {
        "": "was empty",
        f"{KIND}evictionHard: 5\n": "json: cannot unmarshal number into Go struct field",
        "evictionHard: {}\n": "failed to decode: Object 'Kind' is missing in",
        "1: {2020-01-01: [99999999999999999999]}\n": "Object 'Kind' is missing in",
        BOMB: "document contains excessive aliasing",
        "[" * 9000: "failed to decode: yaml",
        f"{KIND}maxPods: 1\n  x: 2\n": "yaml: line 3: mapping values are not allowed",
        f"{KIND}evictionHard: {{disk: 5%}}\n": "failed to run Kubelet: unsupported eviction signal disk",
    }
    async with world(1) as w:
        await debugging(w)
        for text, said in mistakes.items():
            await run(w, "look", "sh", "-c", f"printf '%s' \"$0\" > /host{CONFIG}", text)
            await chrooted(w, "systemctl restart kubelet")
            assert said in await chrooted(w, "journalctl -u kubelet -o cat -n 4")
            assert await chrooted(w, "systemctl is-active kubelet") == "activating\n"


async def test_without_its_fabric_manager_a_node_with_switches_runs_no_cuda():
    async with world(1) as w:
        await debugging(w)
        await w.create("pods", pod("train", trainer(), restartPolicy="Never"))
        await w.tick(60)
        await chrooted(w, "systemctl stop nvidia-fabricmanager")
        await w.create("pods", pod("late", trainer(), restartPolicy="Never"))
        await w.tick(30)
        assert ": 45, pid=" in await chrooted(w, "dmesg | tail -1")
        assert "In Progress" in await chrooted(w, "nvidia-smi -q -d FABRIC | grep -m1 State")
        for name in ("train", "late"):
            assert (await w.pod(name))["status"]["phase"] == "Failed"
        log = w.kubelets.logs("default", "late", "main").decode()
        assert "might have already set an error? Error 802: system not yet initialized\n" in log
        await chrooted(w, "systemctl start nvidia-fabricmanager")
        await w.create("pods", pod("later", trainer(), restartPolicy="Never"))
        await w.tick(30)
        assert (await w.pod("later"))["status"]["phase"] == "Running"


async def test_a_kernel_without_the_drivers_module_has_no_gpus_to_give_until_it_is_built():
    async with world(1) as w:
        board(w).built = False
        w.kubelets.machines.reboot(w.node_names[0])
        await w.tick(200)
        await debugging(w)
        node = await w.client.get("nodes", w.node_names[0])
        assert (node["status"]["capacity"]["nvidia.com/gpu"], node["status"]["allocatable"]["nvidia.com/gpu"]) == (
            "8",
            "0",
        )
        assert (await chrooted(w, "nvidia-smi; echo $?")).startswith(
            "NVIDIA-SMI has failed because it couldn't communicate"
        )
        assert "nvidia" not in await chrooted(w, "lsmod; dmesg; ls /dev /proc/driver 2>/dev/null")
        assert "● nvidia-fabricmanager.service loaded failed" in await chrooted(w, "systemctl --failed")
        said = await chrooted(w, "journalctl -u nvidia-fabricmanager -o cat")
        assert said.startswith("Starting NVIDIA fabric manager service...\nrequest to query NVSwitch")
        assert said.endswith("Failed to start NVIDIA fabric manager service.\n")
        absent = "modprobe: FATAL: Module nvidia not found in directory /lib/modules/5.15.0-1073-gke\n"
        assert await chrooted(w, "modprobe nvidia") == absent
        assert "installed for 5.15.0-1073-gke" in await chrooted(w, "dkms autoinstall")
        assert await chrooted(w, "modprobe nvidia && systemctl start nvidia-persistenced nvidia-fabricmanager") == ""
        await w.tick(5)
        assert (await w.client.get("nodes", w.node_names[0]))["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert await chrooted(w, "rmmod nvidia_uvm nvidia_drm nvidia_modeset; rmmod nvidia") == (
            "rmmod: ERROR: Module nvidia is in use\n"
        )


async def test_a_driver_that_nobody_holds_is_loaded_again_and_fits_its_libraries():
    async with world(1) as w:
        await debugging(w)
        gpus = w.kubelets.gpus(w.node_names[0])
        gpus.plugin_starts("gpu-operator/plugin/main", lambda line: None)
        board(w).update_driver("580.105.08", w.clock.now())
        await chrooted(w, "systemctl stop nvidia-persistenced nvidia-fabricmanager")
        unload = "rmmod nvidia_uvm nvidia_drm nvidia_modeset; rmmod nvidia"
        assert await chrooted(w, unload) == "rmmod: ERROR: Module nvidia is in use\n"
        gpus.plugin_ends("gpu-operator/plugin/main", w.clock.now())
        assert await chrooted(w, "rmmod nvidia && modprobe nvidia") == ""
        assert (await chrooted(w, "nvidia-smi -L")).startswith("GPU 0: NVIDIA H100")


async def test_what_is_killed_is_started_again_and_what_was_disabled_stays_down_after_a_boot():
    async with world(1) as w:
        await debugging(w)
        first = (await chrooted(w, "pgrep -x kubelet")).strip()
        await chrooted(w, f"kill -9 {first}")
        assert "status=9/KILL" in await chrooted(w, "journalctl -u kubelet -o cat -n 2")
        await w.tick(15)
        second = (await chrooted(w, "pgrep -x kubelet")).strip()
        assert int(second) > int(first)
        assert await chrooted(w, "systemctl disable kubelet") == (
            "Removed /etc/systemd/system/multi-user.target.wants/kubelet.service.\n"
        )
        saved = json.loads(json.dumps(w.kubelets.changes()[f"services/{w.node_names[0]}"]))
        assert saved["kubelet"]["enabled"] == "disabled"
        w.kubelets.machines.reboot(w.node_names[0])
        await w.tick(300)
        assert (await ready(w))[0] == "Unknown"


async def test_the_journal_is_read_by_time_urgency_and_form():
    async with world(1) as w:
        await debugging(w)
        assert await chrooted(w, "journalctl -k -p err --no-pager") == "-- No entries --\n"
        board(w).xid(0, 79, w.clock.now())
        assert "fallen off the bus" in await chrooted(w, "journalctl -k -p err --since '5 min ago'")
        assert await chrooted(w, "journalctl --since today -t kernel -g 'Xid.*79' -o cat | wc -l") == "1\n"
        assert (
            json.loads(await chrooted(w, "journalctl -u kubelet -n 1 -o json"))["_SYSTEMD_UNIT"] == "kubelet.service"
        )
        assert await chrooted(w, "journalctl --since nonsense") == "journalctl: Failed to parse timestamp: nonsense\n"
        now = w.clock.now()
        assert (now - moment("1h 5min ago", now)).total_seconds() == 3900
        with pytest.raises(Wrong):
            moment("5 fortnights ago", now)


async def test_the_drivers_smaller_programs_agree_with_it():
    async with world(1) as w:
        await debugging(w)
        assert await chrooted(w, "nv-fabricmanager --version") == "Fabric Manager version is : 580.95.05\n"
        said = await chrooted(w, "systemctl stop containerd; crictl ps; systemctl start containerd")
        assert said.count("connect: no such file or directory") == 1


async def test_a_stopped_kubelet_is_still_stopped_after_kubesim_has_ended_and_its_containers_still_run():
    async with world(1) as w:
        kept = []
        await w.create("pods", pod("web", container("nginx:1.27")))
        await w.tick(5)
        w.kubelets.touch = lambda: kept.append(True)
        services(w).stop("kubelet")
        assert kept
        state = orjson.loads(orjson.dumps(w.kubelets.changes()))
        await w.kubelets.stop()
        w.kubelets = await kubelet.start(w.client, w.clock, *w.node_names, state=state, fabric=w.kubelets.fabric)
        await w.tick(5)
        assert w.kubelets.away(w.node_names[0]).endswith("connection refused")
        assert (await run(w, "web", "echo", "here"))[1] == "here\n"
        services(w).start("kubelet")
        await w.tick(10)
        assert (w.kubelets.away(w.node_names[0]), (await w.pod("web"))["status"]["phase"]) == ("", "Running")
