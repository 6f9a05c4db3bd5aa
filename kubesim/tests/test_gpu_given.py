"""Workloads follow from what their container was given: no GPU, one that has failed, a small one, a slow one."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from kubesim.gpu.readings import read
from kubesim.kubelet import footprint, records
from kubesim.metrics import dcgm
from kubesim.tests.containers import cat, log, run, state
from kubesim.tests.test_gpu_containers import PYTORCH, trainer
from kubesim.tests.world import container, pod, world

VLLM = "vllm/vllm-openai:v0.10.1"
OLD_VLLM, TRITON = "vllm/vllm-openai:v0.6.3", "nvcr.io/nvidia/tritonserver:25.03-py3"
TRAIN = ("python", "/workspace/train.py")
RATE = re.compile(r"step (\d+) loss ([\d.]+) lr 3.00e-04 ([\d.]+) samples/s")


def board(w):
    return w.kubelets.gpus(w.node_names[0]).board


def rates(w, name):
    return [float(rate) for _, _, rate in RATE.findall(log(w, name))]


def env(**values):
    return [{"name": name, "value": value} for name, value in values.items()]


@pytest.mark.parametrize(("gpus", "variables"), [(8, {}), (0, {}), (8, {"NVIDIA_VISIBLE_DEVICES": "all"})])
@pytest.mark.parametrize("command", [TRAIN, ("sh", "-c", "python /workspace/train.py")])
async def test_a_pod_without_limits_trains_on_the_processor(gpus, variables, command):
    """With the operator's CDI the runtime looks at the device plugin's grant alone (GPU Operator 25.10, "CDI")."""
    async with world(count=1, gpus=gpus) as w:
        await w.create("pods", pod("plain", container(PYTORCH, *command, env=env(**variables))))
        await w.tick(300)
        assert all(40 < rate < 60 for rate in rates(w, "plain"))
        assert len(rates(w, "plain")) == 2
        assert not any(device.tasks for device in board(w).devices)
        assert (await run(w, "plain", "sh", "-c", "nvidia-smi"))[0] == 127


@pytest.mark.parametrize(("value", "seen"), [("all", 8), ("0,3", 2), ("none", 0)])
async def test_the_toolkits_own_runtime_believes_nvidia_visible_devices(value, seen):
    async with world(count=1) as w:
        await w.client.create(
            "runtimeclasses.node.k8s.io",
            {"metadata": {"name": "nvidia"}, "handler": "nvidia", "kind": "RuntimeClass"},
        )
        main = container(PYTORCH, *TRAIN, env=env(NVIDIA_VISIBLE_DEVICES=value))
        await w.create("pods", pod("train", main, runtimeClassName="nvidia"))
        await w.tick(60)
        assert sum(bool(device.tasks) for device in board(w).devices) == seen
        assert (await run(w, "train", "sh", "-c", "nvidia-smi -L"))[1].count("H100") == seen
        assert (await run(w, "train", "sh", "-c", "ls /dev | grep -c 'nvidia[0-9]'"))[1] == f"{seen}\n"


async def test_an_inference_server_without_a_gpu_fails_in_its_own_words():
    async with world(count=1, present=(VLLM, OLD_VLLM)) as w:
        for name, image in (("old", OLD_VLLM), ("new", VLLM)):
            await w.create("pods", pod(name, container(image, args=["--model", "a/b-7b"]), restartPolicy="Never"))
        await w.tick(30)
        assert log(w, "new").splitlines()[-1] == (
            "RuntimeError: Failed to infer device type, please set the environment variable "
            "`VLLM_LOGGING_LEVEL=DEBUG` to turn on verbose logging to help debug the issue."
        )
        assert "No platform detected, vLLM is running on UnspecifiedPlatform" in log(w, "new")
        assert log(w, "old").splitlines()[-1] == "RuntimeError: Failed to infer device type"
        assert state(await w.pod("new"))["state"]["terminated"]["exitCode"] == 1


async def test_triton_without_a_gpu_serves_on_the_processor():
    async with world(count=1, gpus=0, present=(TRITON,)) as w:
        main = container(TRITON, args=["tritonserver", "--model-repository=/m"])
        await w.create("pods", pod("serve", main))
        await w.tick(30)
        assert "CUDA driver version is insufficient for CUDA runtime version" in log(w, "serve")
        assert "(CPU device 0)" in log(w, "serve")


@pytest.mark.parametrize("value", ["", "-1", "7"])
async def test_cuda_visible_devices_hides_gpus_from_cuda_and_not_from_nvidia_smi(value):
    async with world(count=1) as w:
        await w.create("pods", pod("blind", trainer(2, env=env(CUDA_VISIBLE_DEVICES=value))))
        await w.create("pods", pod("serve", trainer(1, VLLM, (), env=env(CUDA_VISIBLE_DEVICES=value))))
        await w.tick(200)
        assert (await run(w, "blind", "nvidia-smi", "-L"))[1].count("NVIDIA H100 80GB HBM3") == 2
        assert all(40 < rate < 60 for rate in rates(w, "blind"))
        assert [read(device, w.clock.now()).util for device in board(w).devices[:3]] == [0, 0, 0]
        assert "RuntimeError: No CUDA GPUs are available" in log(w, "serve", previous=True)


async def test_cuda_visible_devices_from_a_config_map_chooses_the_gpu():
    async with world(count=1) as w:
        await w.create("configmaps", {"metadata": {"name": "settings"}, "data": {"CUDA_VISIBLE_DEVICES": "1"}})
        main = trainer(2, envFrom=[{"configMapRef": {"name": "settings"}}])
        await w.create("pods", pod("train", main))
        await w.tick(60)
        assert [bool(device.tasks) for device in board(w).devices[:3]] == [False, True, False]


async def test_training_on_the_processor_keeps_processors_busy_in_every_view():
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(1, env=env(CUDA_VISIBLE_DEVICES=""))))
        await w.tick(300)
        now = w.clock.now().timestamp()
        (worker,) = w.kubelets._workers.values()
        (used,) = footprint.processes(worker)
        cores = used.usage.cpu(now - used.started)
        assert 7 < cores < 8
        assert used.usage.cpu_seconds(now - used.started) == pytest.approx(7.6 * 300, rel=0.05)
        top = (await run(w, "train", "sh", "-c", "ps aux | grep train.py"))[1]
        assert float(top.split()[2]) == pytest.approx(cores * 100, rel=0.1)
        stat = dict(line.split() for line in (await cat(w, "train", "/sys/fs/cgroup/cpu.stat")).splitlines())
        assert int(stat["usage_usec"]) / 1e6 == pytest.approx(used.usage.cpu_seconds(now - used.started), rel=0.01)
        current = await cat(w, "train", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat")
        inactive = int(re.search(r"inactive_file (\d+)", current)[1])
        assert int(current.split()[0]) - inactive == pytest.approx(used.usage.memory(now - used.started), rel=0.01)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (48, "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
        (95, "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"),
        (74, "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"),
        (119, "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment"),
    ],
)
async def test_a_restarted_container_fails_on_a_failed_gpu_until_it_is_reset(code, words):
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(1)))
        await w.tick(60)
        board(w).xid(0, code, w.clock.now())
        await w.tick(150)
        assert state(await w.pod("train"))["restartCount"] >= 2
        assert words in log(w, "train", previous=True)
        assert not board(w).devices[0].tasks
        await w.tick(3600)
        assert not board(w).devices[0].tasks
        (board(w).repair if code == 119 else board(w).reset)(0, w.clock.now())
        await w.tick(400)
        assert read(board(w).devices[0], w.clock.now()).util > 85


async def test_an_error_of_the_application_lets_the_next_start_work():
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(1)))
        await w.tick(60)
        board(w).xid(0, 31, w.clock.now())
        await w.tick(60)
        assert state(await w.pod("train"))["restartCount"] == 1
        assert read(board(w).devices[0], w.clock.now()).util > 85


async def test_throughput_and_memory_follow_from_the_product():
    speeds = {}
    for product in ("T4", "L4", "A100", "H100"):
        async with world(count=1, gpus=1, product=product) as w:
            await w.create("pods", pod("train", trainer(1)))
            await w.create("pods", pod("two", trainer(1)))
            await w.tick(120)
            speeds[product] = sum(rates(w, "train")) / len(rates(w, "train"))
    assert speeds["T4"] < speeds["L4"] < speeds["A100"] < speeds["H100"]
    assert speeds["T4"] == pytest.approx(357, rel=0.03)
    assert speeds["H100"] == pytest.approx(2507, rel=0.03)


async def test_two_jobs_never_log_the_same_numbers():
    async with world(count=1) as w:
        for name in ("one", "two"):
            await w.create("pods", pod(name, trainer(1)))
        await w.tick(120)
        one, two = ({loss for _, loss, _ in RATE.findall(log(w, name))} for name in ("one", "two"))
        assert len(one) > 20
        assert len(one & two) < 4


async def test_a_server_tells_its_own_version_and_the_room_of_its_gpu():
    async with world(count=1, gpus=1, product="A100-40GB", present=(OLD_VLLM,)) as w:
        await w.create("pods", pod("serve", trainer(1, OLD_VLLM, (), args=["--model", "a/b-7b"])))
        await w.tick(60)
        assert "vLLM API server version 0.6.3" in log(w, "serve")
        assert "0.10.1" not in log(w, "serve")
        assert "Loading model weights took 13.0385 GB" in log(w, "serve")


async def test_a_job_of_several_pods_has_no_nccl_without_gpus():
    async with world(count=1) as w:
        values = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}
        await w.create("pods", pod("rank", container(PYTORCH, *TRAIN, env=env(**values))))
        await w.tick(4)
        assert log(w, "rank").endswith("ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!\n")


@pytest.mark.parametrize(
    ("tag", "kind"), [("24.05", "RuntimeError"), ("25.03", "RuntimeError"), ("25.06", "torch.AcceleratorError")]
)
async def test_an_error_of_cuda_has_the_name_of_the_images_release(tag, kind):
    image = f"nvcr.io/nvidia/pytorch:{tag}-py3"
    async with world(count=1, present=(image,)) as w:
        await w.create("pods", pod("train", trainer(1, image), restartPolicy="Never"))
        await w.tick(60)
        board(w).xid(0, 94, w.clock.now())
        await w.tick(5)
        text = (
            "uncorrectable ECC error encountered"
            if tag == "24.05"
            else "Invalid access of peer GPU memory over nvlink"
        )
        assert f"\n{kind}: CUDA error: {text}" in log(w, "train")


async def test_a_model_for_32_gb_dies_on_16_gb_in_pytorchs_words():
    async with world(count=1, gpus=4, product="T4") as w:
        main = trainer(1, command=("python", "train.py", "--memory-gb", "32"))
        await w.create("pods", pod("train", main, restartPolicy="Never"))
        await w.tick(30)
        ended = state(await w.pod("train"))["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (1, "Error")
        assert "GPU 0 has a total capacity of 14.56 GiB of which" in log(w, "train")
        assert "Process 1234" not in log(w, "train")


async def test_a_pod_that_is_bound_to_a_node_without_gpus_runs_without_one():
    """Upstream's kubelet lets it pass: pkg/kubelet/lifecycle/predicate.go, removeMissingExtendedResources."""
    async with world(count=1, gpus=0) as w:
        await w.create("pods", pod("train", trainer(1), nodeName=w.node_names[0]))
        await w.create("pods", pod("serve", trainer(1, VLLM, ()), nodeName=w.node_names[0], restartPolicy="Never"))
        await w.tick(200)
        assert (await w.pod("train"))["status"]["phase"] == "Running"
        assert all(40 < rate < 60 for rate in rates(w, "train"))
        assert (await run(w, "train", "printenv", "NVIDIA_VISIBLE_DEVICES"))[1] == "all\n"
        assert (await w.pod("serve"))["status"]["phase"] == "Failed"
        assert "RuntimeError: Failed to infer device type" in log(w, "serve")


async def test_a_pod_that_is_bound_to_a_node_whose_devices_are_taken_is_refused():
    async with world(count=1, gpus=2) as w:
        await w.create("pods", pod("first", trainer(2)))
        await w.tick(20)
        await w.create("pods", pod("late", trainer(1), nodeName=w.node_names[0]))
        await w.tick(5)
        status = (await w.pod("late"))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
        assert status["message"] == (
            "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
            "Requested: 1, Available: 0, which is unexpected"
        )


async def test_more_ranks_than_gpus_have_no_valid_device():
    async with world(count=1) as w:
        main = trainer(1, command=("torchrun", "--nproc_per_node=2", "train.py"))
        await w.create("pods", pod("train", main, restartPolicy="Never"))
        await w.tick(10)
        assert "RuntimeError: CUDA error: invalid device ordinal" in log(w, "train")


@pytest.mark.parametrize(("visible", "ranks"), [("0,1", 2), ("1", 1)])
async def test_torchrun_starts_a_rank_for_each_gpu_that_cuda_shows(visible, ranks):
    async with world(count=1) as w:
        main = trainer(
            4, command=("torchrun", "--nproc_per_node=gpu", "train.py"), env=env(CUDA_VISIBLE_DEVICES=visible)
        )
        await w.create("pods", pod("train", main))
        await w.tick(60)
        assert sum(bool(device.tasks) for device in board(w).devices) == ranks
        assert (await run(w, "train", "sh", "-c", "ps aux | grep -c '[p]ython3 -u train.py'"))[1] == f"{ranks}\n"


async def test_utilisation_is_the_same_in_nvidia_smi_dcgm_and_the_exporter():
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(2)))
        await w.tick(60)
        query = (
            "nvidia-smi",
            "--query-gpu=utilization.gpu,memory.used,temperature.gpu",
            "--format=csv,noheader,nounits",
        )
        smi = [tuple(map(int, line.split(", "))) for line in (await run(w, "train", *query))[1].splitlines()]
        exposed = [*dcgm.exposed(board(w), w.clock.now())]

        def told(name):
            return [each.value for each in exposed if each.family.name == name and each.labels.get("pod") == "train"]

        fields = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_TEMP")
        assert [*zip(*map(told, fields), strict=True)] == smi
        at = w.clock.now().timestamp()
        series = [each for each in dcgm.series(board(w), fields[0], at, at) if each.labels.get("pod") == "train"]
        assert [each.value(at) for each in series] == [util for util, *_ in smi]


async def test_processes_that_share_a_gpu_share_its_speed_and_its_memory():
    async with world(count=1, gpus=1) as w:
        board(w).replicas = 2
        board(w).changed()
        await w.tick(15)
        await w.create("pods", pod("one", trainer(1)))
        await w.tick(30)
        await w.create("pods", pod("two", trainer(1, command=("python", "train.py", "--memory-gb", "20"))))
        await w.tick(60)
        assert rates(w, "one")[0] == pytest.approx(2507, rel=0.03)
        assert "CUDA out of memory" in log(w, "two", previous=True)
        assert len(re.findall(r"Process \d+ has", log(w, "two", previous=True))) == 2


@pytest.mark.parametrize(
    ("image", "args", "words"),
    [
        (PYTORCH, ["python", "train.py"], "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"),
        (
            VLLM,
            ["--model", "a/b-1b"],
            "ValueError: Free memory on device (1.66/14.56 GiB) on startup is less than desired GPU memory "
            "utilization (0.9, 13.11 GiB). Decrease GPU memory utilization or reduce GPU memory used by "
            "other processes.",
        ),
    ],
)
async def test_a_second_program_on_a_shared_gpu_finds_little_memory(image, args, words):
    async with world(count=1, gpus=1, product="T4") as w:
        board(w).replicas = 2
        board(w).changed()
        await w.tick(15)
        await w.create("pods", pod("one", trainer(1)))
        await w.tick(30)
        await w.create("pods", pod("two", trainer(1, image, (), args=args), restartPolicy="Never"))
        await w.tick(60)
        assert words in log(w, "two")
        assert read(board(w).devices[0], w.clock.now()).used <= 15360


@pytest.mark.parametrize(
    ("product", "model", "words"),
    [
        ("T4", "a/b-7b", "torch.OutOfMemoryError: CUDA out of memory."),
        ("A100-40GB", "a/b-19b", "ValueError: No available memory for the cache blocks."),
    ],
)
async def test_a_model_that_fills_its_gpu_fails_in_vllms_words(product, model, words):
    async with world(count=1, gpus=1, product=product) as w:
        await w.create("pods", pod("serve", trainer(1, VLLM, (), args=["--model", model]), restartPolicy="Never"))
        await w.tick(40)
        assert words in log(w, "serve")
        assert "Engine core initialization failed. See root cause above." in log(w, "serve")


async def test_a_gpu_without_bfloat16_serves_in_half_precision():
    async with world(count=1, gpus=1, product="T4") as w:
        await w.create("pods", pod("serve", trainer(1, VLLM, (), args=["--model", "a/b-1b"])))
        await w.tick(40)
        assert "dtype=torch.float16" in log(w, "serve")
        assert "bfloat16" not in log(w, "serve")


async def test_one_node_works_and_its_twin_is_idle_in_every_view():
    async with world(count=2) as w:
        full, idle = w.node_names
        for number in range(8):
            where = {"nodeSelector": {"kubernetes.io/hostname": full}}
            await w.create("pods", pod(f"job-{number}", trainer(1), **where))
        await w.create("pods", pod("late", trainer(1), nodeSelector={"kubernetes.io/hostname": full}))
        await w.tick(60)
        boards = {name: w.kubelets.gpus(name).board for name in (full, idle)}
        exposed = [each for name in boards for each in dcgm.exposed(boards[name], w.clock.now())]
        utils = [each for each in exposed if each.family.name == "DCGM_FI_DEV_GPU_UTIL"]
        assert all((each.value > 85) == (each.labels["Hostname"] == full) for each in utils)
        assert (await w.pod("late"))["status"]["phase"] == "Pending"
        assert "1 Insufficient nvidia.com/gpu" in (await w.messages("FailedScheduling"))[0]
        await w.client.delete("pods", "late", "default")
        await w.create("pods", pod("free", trainer(1)))
        await w.tick(30)
        assert (await w.pod("free"))["spec"]["nodeName"] == idle


async def test_what_a_program_has_found_outlives_a_restart_of_the_simulator():
    async with world(count=1, gpus=4, product="T4") as w:
        await w.create("pods", pod("train", trainer(2)))
        await w.create("pods", pod("plain", container(PYTORCH, *TRAIN)))
        await w.tick(200)
        for worker in w.kubelets._workers.values():
            (each,) = worker.record.containers
            kept = records.Container.load(json.loads(json.dumps(each.dump(), default=str)))
            assert kept.instance.found == each.instance.found is not None
            before = [*worker.program(each).lines(200)]
            assert [*worker.program(each, kept.instance).lines(200)] == before


async def test_the_drivers_libraries_come_with_a_gpu_alone():
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(1)))
        await w.create("pods", pod("plain", container(PYTORCH, *TRAIN)))
        await w.tick(30)
        listed = ("sh", "-c", "ls /usr/lib/x86_64-linux-gnu | grep libcuda.so")
        assert (await run(w, "train", *listed))[1] == "libcuda.so.1\nlibcuda.so.580.95.05\n"
        assert (await run(w, "plain", *listed))[1] == ""


async def test_a_second_training_in_one_container_finds_the_memory_taken():
    async with world(count=1, gpus=1, product="T4") as w:
        await w.create("pods", pod("train", trainer(1)))
        await w.tick(30)
        script = "timeout 20 python train.py 2>/tmp/errors & wait; tail -1 /tmp/errors"
        running = asyncio.ensure_future(run(w, "train", "sh", "-c", script))
        await w.tick(40)
        assert "torch.OutOfMemoryError: CUDA out of memory." in (await running)[1]


@pytest.mark.parametrize(("gpus", "talks"), [(1, False), (2, True)])
async def test_only_gpus_that_work_together_use_their_nvlinks(gpus, talks):
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(gpus)))
        await w.tick(60)
        assert (read(board(w).devices[0], w.clock.now()).nvlink > 0) == talks


async def test_training_that_is_held_down_by_its_limit_is_slower_and_throttled():
    async with world(count=1) as w:
        limits = {"limits": {"nvidia.com/gpu": "1", "cpu": "2"}}
        main = container(PYTORCH, *TRAIN, env=env(CUDA_VISIBLE_DEVICES=""), resources=limits)
        await w.create("pods", pod("train", main))
        await w.tick(1000)
        assert [rate for rate in rates(w, "train") if not 11.9 < rate < 12.5] == []
        stat = dict(line.split() for line in (await cat(w, "train", "/sys/fs/cgroup/cpu.stat")).splitlines())
        assert int(stat["usage_usec"]) == pytest.approx(2e6 * 1000, rel=0.02)
        assert int(stat["nr_periods"]) == pytest.approx(10 * 1000, rel=0.02)
        assert int(stat["nr_throttled"]) > 5000
