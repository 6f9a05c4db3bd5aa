"""What the root of a container says of its image, and what of its node and of its limits."""

import re

import pytest

from kubesim.kubelet import images
from kubesim.kubelet.footprint import processes
from kubesim.shell import rootfs
from kubesim.shell.tools.system import up_for
from kubesim.tests.containers import cat, log, run
from kubesim.tests.world import container, pod, world


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("nvidia/cuda:12.4.1-base-ubuntu22.04", "ubuntu-22.04"),
        ("nvidia/cuda:12.8.0-devel-ubi9", "rhel-9"),
        ("python:3.12-slim-bookworm", "debian-12"),
        ("python:3.13", "debian-13"),
        ("ubuntu:24.04", "ubuntu-24.04"),
        ("nvcr.io/nvidia/pytorch:25.03-py3", "ubuntu-24.04"),
        ("nginx:1.27", ""),
    ],
)
def test_the_tag_says_which_release_an_image_is_built_on(image, release):
    assert images.pull(image, "amd64").release == release


def test_every_release_of_the_catalogue_is_known():
    for entries in images._standard()["images"].values():
        for entry in entries:
            known = entry.get("release", "")
            for name in [known] if isinstance(known, str) else known.values():
                assert name == "" or "ID=" in rootfs._release(name)


async def test_a_container_knows_its_distribution_and_has_the_environment_of_its_image():
    async with world() as w:
        await w.create("pods", pod("cuda", container("nvidia/cuda:12.4.1-base-ubuntu22.04", "sleep", "3600")))
        await w.tick(60)
        assert 'PRETTY_NAME="Ubuntu 22.04.5 LTS"\n' in await cat(w, "cuda", "/etc/os-release")
        assert (await run(w, "cuda", "sh", "-c", "echo $CUDA_VERSION"))[1] == "12.4.1\n"


async def test_the_web_server_brings_curl_as_its_image_does():
    async with world() as w:
        await w.create("pods", pod("web", container("nginx:1.27")))
        await w.tick(2)
        assert "Welcome to nginx" in (await run(w, "web", "curl", "-s", "http://localhost"))[1]


async def test_memory_is_the_nodes_and_the_limit_stands_in_the_control_group():
    limits = {"limits": {"memory": "512Mi", "cpu": "1500m"}}
    async with world(count=1) as w:
        await w.create("pods", pod("web", container("nginx:1.27", resources=limits)))
        await w.tick(2)
        group = [await cat(w, "web", f"/sys/fs/cgroup/{name}") for name in ("memory.max", "cpu.max")]
        assert group == [f"{512 << 20}\n", "150000 100000\n"]
        capacity = (await w.client.list("nodes")).items[0]["status"]["capacity"]
        assert f"MemTotal:       {capacity['memory'].removesuffix('Ki')} kB" in await cat(w, "web", "/proc/meminfo")
        assert (await run(w, "web", "nproc"))[1].strip() == capacity["cpu"]


async def test_secrets_are_kept_in_memory_and_other_volumes_on_the_disk():
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    volumes = [{"name": "scratch", "emptyDir": {}}]
    async with world() as w:
        await w.create("pods", pod("web", container("nginx:1.27", volumeMounts=mounts), volumes=volumes))
        await w.tick(2)
        kinds = dict(line.split()[1:3] for line in (await cat(w, "web", "/proc/mounts")).splitlines())
        assert kinds["/scratch"] == "ext4"
        assert kinds["/run/secrets/kubernetes.io/serviceaccount"] == "tmpfs"  # /var/run is a link in this image


async def test_mount_and_df_tell_what_proc_tells():
    async with world() as w:
        await w.create("pods", pod("web", container("ubuntu:22.04", "sleep", "3600")))
        await w.tick(2)
        told = [line.split() for line in (await cat(w, "web", "/proc/mounts")).splitlines()]
        assert [row[1] for row in told][:7] == [
            "/", "/proc", "/dev", "/dev/pts", "/dev/mqueue", "/sys", "/sys/fs/cgroup",
        ]  # fmt: skip
        assert {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/shm", "/dev/termination-log"} <= {
            row[1] for row in told
        }
        assert "/snapshots/" in told[0][3]
        rows = [f"{row[0]} on {row[1]} type {row[2]} ({row[3]})" for row in told]
        assert (await run(w, "web", "mount"))[1].splitlines() == rows
        shown = [line.split()[-1] for line in (await run(w, "web", "df"))[1].splitlines()[1:]]
        assert shown[:3] == ["/", "/dev", "/etc/hosts"]  # one of the four files that lie on the node's disk
        assert "/dev/shm" in shown
        assert {"/proc", "/sys", "/etc/hostname"} & {*shown} == set()


async def test_nothing_in_a_container_dates_from_1970_and_no_search_leaves_it_through_proc():
    async with world() as w:
        spec = container("ubuntu:22.04", "sleep", "3600", workingDir="/app")
        await w.create("pods", pod("web", spec))
        await w.tick(2)
        assert "1970" not in (await run(w, "web", "sh", "-c", "ls -la / /app /dev /etc /proc /proc/1"))[1]
        assert (await run(w, "web", "find", "/", "-name", "hostname", "-path", "*/etc/*"))[1] == "/etc/hostname\n"
        assert " root -> /\n" in (await run(w, "web", "ls", "-l", "/proc/1"))[1]
        assert "2 -> pipe:[" in (await run(w, "web", "ls", "-l", "/proc/self/fd"))[1]


async def test_an_image_whose_entry_point_takes_options_runs_its_program_with_them():
    async with world() as w:
        await w.create("pods", pod("web", container("nginx:1.27")))
        await w.tick(2)
        url = f"http://{(await w.pod('web'))['status']['podIP']}"
        spec = {"name": "main", "image": "curlimages/curl", "args": ["-sS", url]}
        await w.create("pods", pod("ask", spec, restartPolicy="Never"))
        await w.tick(5)
        assert "Welcome to nginx" in log(w, "ask")
        assert (await w.pod("ask"))["status"]["phase"] == "Succeeded"


async def test_the_root_of_an_image_has_the_folders_and_links_of_its_distribution():
    async with world() as w:
        await w.create("pods", pod("web", container("nginx:1.27")))
        await w.create("pods", pod("small", container("busybox:1.36", "sleep", "3600")))
        await w.tick(2)
        assert (await run(w, "web", "sh", "-c", "ls -d /*"))[1].split() == [
            "/bin", "/boot", "/dev", "/docker-entrypoint.sh", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt",
            "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/var",
        ]  # fmt: skip
        assert (await run(w, "web", "sh", "-c", "readlink /bin /var/run; which ls"))[
            1
        ] == "usr/bin\n/run\n/usr/bin/ls\n"
        assert (await run(w, "web", "sh", "-c", "ls /var/run/secrets/kubernetes.io /run/secrets"))[1].split() == [
            "/run/secrets:", "kubernetes.io", "/var/run/secrets/kubernetes.io:", "serviceaccount"
        ]  # fmt: skip
        assert (await run(w, "small", "ls", "/"))[1].split() == [
            "bin", "dev", "etc", "home", "lib", "lib64", "proc", "root", "sys", "tmp", "usr", "var"
        ]  # fmt: skip


async def test_the_process_of_a_workload_is_seen_to_use_what_it_uses():
    async with world(count=1) as w:
        limits = {"limits": {"nvidia.com/gpu": 8}}
        image = "nvcr.io/nvidia/pytorch:25.03-py3"
        await w.create("pods", pod("llm", container(image, "python", "train.py", resources=limits)))
        await w.tick(120)
        row = (await run(w, "llm", "ps", "aux"))[1].splitlines()[1].split()
        assert (row[1], row[7]) == ("1", "Rsl")
        assert 400 < int(row[2]) < 900  # percent of a core
        assert int(row[5]) > 30_000_000  # KiB that it holds
        held = int(re.search(r"VmRSS:\t(\d+) kB\n", await cat(w, "llm", "/proc/1/status"))[1])
        assert held == pytest.approx(39200 << 10, rel=0.06)
        busiest = (await run(w, "llm", "top", "-b", "-n1"))[1].splitlines()[7].split()
        assert (busiest[0], busiest[5], busiest[-1]) == ("1", f"{held / (1 << 20):.1f}g", "python")


async def test_a_workload_that_a_shell_has_started_uses_as_much():
    async with world(count=1) as w:
        limits = {"limits": {"nvidia.com/gpu": 8}}
        image = "nvcr.io/nvidia/pytorch:25.03-py3"
        script = "echo begin; torchrun --nproc_per_node=8 train.py"
        await w.create("pods", pod("llm", container(image, "bash", "-c", script, resources=limits)))
        await w.tick(60)
        rows = [line.split() for line in (await run(w, "llm", "ps", "aux"))[1].splitlines()]
        ranks = [row for row in rows if row[-1] == "train.py" and "torchrun" not in " ".join(row)]
        assert len(ranks) == 8
        assert 400 < sum(float(row[2]) for row in ranks) < 900
        assert sum(int(row[5]) for row in ranks) > 30_000_000
        (worker,) = w.kubelets._workers.values()
        (process,) = processes(worker)
        elapsed = w.clock.now().timestamp() - process.started
        assert 4 < process.usage.cpu(elapsed) < 9
        assert process.usage.memory(elapsed) > 30 << 30


async def test_a_container_and_its_nodes_log_agree_on_how_long_the_machine_is_up():
    async with world(count=1) as w:
        await w.create("pods", pod("web", container("nvcr.io/nvidia/pytorch:25.03-py3", "sleep", "inf")))
        await w.tick(2)
        (worker,) = w.kubelets._workers.values()
        booted = worker.sandbox.host.node.gpus.board.log.booted
        seconds = float((await cat(w, "web", "/proc/uptime")).split()[0])
        assert seconds == pytest.approx((w.clock.now() - booted).total_seconds(), abs=1)
        assert f"up {up_for(seconds)}," in (await run(w, "web", "uptime"))[1]
        assert [up_for(s) for s in (130, 7260, 86400 + 60, 2 * 86400 + 36000)] == [
            "2 min", " 2:01", "1 day, 1 min", "2 days, 10:00"
        ]  # fmt: skip
