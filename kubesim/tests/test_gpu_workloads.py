"""Known workloads: what loads GPUs however it is started, what does not, and how it dies of too little memory."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest

from kubesim.gpu.demand import on_cpu, wanted_mib
from kubesim.gpu.readings import read
from kubesim.kubelet import servers
from kubesim.kubelet.failures import server_version
from kubesim.kubelet.images import pull
from kubesim.network.fabric import Request
from kubesim.tests.containers import log, run, state
from kubesim.tests.test_gpu_containers import trainer
from kubesim.tests.world import container, pod, world

VLLM = "vllm/vllm-openai:v0.10.1"


def board(w):
    return w.kubelets.gpus(w.node_names[0]).board


def util(w, device=0):
    return read(board(w).devices[device], w.clock.now()).util


async def begun(w, main, seconds=60, **spec):
    await w.create("pods", pod("work", main, **spec))
    await w.tick(seconds)


@pytest.mark.parametrize(
    "command",
    [
        ("python", "train.py"),
        ("sh", "-c", "python train.py"),
        ("bash", "-c", "set -e; echo begin; python3 -u /workspace/train.py --epochs 3"),
        ("sh", "-c", "cd /workspace && exec torchrun --nproc_per_node=1 train.py"),
        ("torchrun", "--nproc_per_node=1", "train.py"),
        ("bash", "-c", "python -m torch.distributed.run train.py"),
        ("bash", "-c", "for i in 1 2; do python train.py & done; wait"),
    ],
)
async def test_training_loads_its_gpu_however_it_is_started(command):
    async with world(count=1) as w:
        await begun(w, trainer(1, command=command))
        assert util(w) > 85
        assert "INFO:root:step" in log(w, "work")


async def test_what_a_shell_has_started_leaves_the_gpu_when_it_ends():
    async with world(count=1) as w:
        await begun(w, trainer(1, command=("sh", "-c", "timeout 60 python train.py; sleep 1000")))
        await w.tick(60)
        assert util(w) == 0
        assert not board(w).devices[0].tasks


async def test_a_shells_training_dies_of_an_xid_with_its_traceback():
    async with world(count=1) as w:
        await begun(w, trainer(1, command=("sh", "-c", "python train.py; echo left $?")), restartPolicy="Never")
        board(w).xid(0, 48, w.clock.now())
        await w.tick(5)
        assert "RuntimeError: CUDA error: uncorrectable ECC error encountered" in log(w, "work")
        assert log(w, "work").endswith("left 1\n")


async def test_a_short_program_is_interpreted_and_loads_nothing():
    async with world(count=1) as w:
        await begun(w, trainer(1, command=("sh", "-c", "python -c 'print(6*7)'; sleep 1000")))
        assert log(w, "work") == "42\n"
        assert util(w) == 0


@pytest.mark.parametrize(
    ("args", "env"),
    [(("--device", "cpu"), {}), ((), {"CUDA_VISIBLE_DEVICES": "-1"}), ((), {"CUDA_VISIBLE_DEVICES": ""}),
     (("--no-cuda",), {}), ((), {"FORCE_CPU": "1"})],
)  # fmt: skip
async def test_training_that_is_told_to_stay_on_the_cpu_leaves_its_gpu_idle(args, env):
    async with world(count=1) as w:
        variables = [{"name": name, "value": value} for name, value in env.items()]
        await begun(w, trainer(1, command=("python", "train.py", *args), env=variables), seconds=200)
        assert util(w) == 0
        assert not board(w).devices[0].tasks
        rates = re.findall(r"step \d+ loss [\d.]+ lr 3.00e-04 ([\d.]+) samples/s", log(w, "work"))
        assert rates
        assert all(40 < float(rate) < 60 for rate in rates)


async def test_a_model_that_is_too_large_dies_as_pytorch_does():
    async with world(count=1) as w:
        await begun(w, trainer(1, command=("python", "train.py", "--batch-size", "512")), restartPolicy="Never")
        ended = state(await w.pod("work"))["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (1, "Error")
        last = log(w, "work").splitlines()[-1]
        found = re.fullmatch(
            r"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate (\S+ .iB). GPU 0 has a total capacity of "
            r"79.10 GiB of which (\S+ .iB) is free. Process (\d+) has (\S+) GiB memory in use. "
            r"Of the allocated memory \S+ GiB is allocated by PyTorch, and \S+ .iB is reserved by PyTorch but "
            r"unallocated. If reserved but unallocated memory is large try setting "
            r"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory "
            r"Management  \(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables\)",
            last,
        )
        assert found, last
        assert int(found[3]) > 4200


async def test_it_dies_in_a_shell_too_and_older_releases_name_the_error_otherwise():
    async with world(count=1) as w:
        command = ("sh", "-c", "python train.py --gpu-memory-gb 100")
        main = trainer(1, image="nvcr.io/nvidia/pytorch:24.05-py3", command=command)
        await begun(w, main, restartPolicy="Never")
        assert "torch.cuda.OutOfMemoryError: CUDA out of memory." in log(w, "work")


async def test_an_inference_server_that_fits_its_gpus_stays():
    async with world(count=1) as w:
        args = ["--model", "meta-llama/Llama-3.1-70B-Instruct", "--tensor-parallel-size", "4"]
        limits = {"limits": {"nvidia.com/gpu": "4"}}
        await begun(w, container(VLLM, resources=limits, args=args))
        assert state(await w.pod("work"))["state"].get("running")
        assert board(w).devices[3].tasks


async def test_an_inference_server_that_does_not_fit_fails():
    async with world(count=1) as w:
        args = ["--model", "meta-llama/Llama-3.1-70B-Instruct"]
        await begun(
            w, container(VLLM, resources={"limits": {"nvidia.com/gpu": "1"}}, args=args), restartPolicy="Never"
        )
        assert "torch.OutOfMemoryError: CUDA out of memory." in log(w, "work")
        assert "RuntimeError: Engine core initialization failed." in log(w, "work")


async def test_nccl_talks_when_it_is_asked_to():
    async with world(count=1) as w:
        env = [{"name": "NCCL_DEBUG", "value": "INFO"}]
        command = ("torchrun", "--nproc_per_node=2", "train.py")
        await begun(w, trainer(2, env=env, command=command))
        told = log(w, "work")
        assert "work:67:67 [0] NCCL INFO NCCL version 2.25.1+cuda12.8" in told
        assert "rank 1 nRanks 2 nNodes 1 localRanks 2 localRank 1 MNNVL 0" in told
        assert "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM" in told


async def test_nvidia_smi_on_the_node_shows_who_works():
    async with world(count=1) as w:
        await begun(w, trainer(1, command=("sh", "-c", "python train.py")))
        agent = container("nvidia/cuda:12.6.3-base-ubuntu22.04", "sleep", "inf", securityContext={"privileged": True})
        await w.create("pods", pod("agent", agent))
        await w.tick(5)
        fields = "--query-compute-apps=process_name,used_memory"
        out = (await run(w, "agent", "nvidia-smi", fields, "--format=csv,noheader"))[1]
        assert out.startswith("python, ")


@pytest.mark.parametrize(
    ("argv", "env", "devices", "training", "gib"),
    [
        ("train.py", {}, 1, True, 0),
        ("train.py --memory 32GB", {}, 1, True, 32),
        ("train.py", {"GPU_MEMORY_GB": "24"}, 1, True, 24),
        ("train.py --batch-size=32", {}, 1, True, 17),
        ("train.py", {"BATCH_SIZE": "64"}, 1, True, 28),
        ("serve --model llama-7b", {}, 1, False, 15),
        ("serve --model llama-7b-awq", {}, 1, False, 5),
        ("serve --model llama-70b --tensor-parallel-size 8", {}, 8, False, 18),
        ("train.py --model_name_or_path llama-7b", {}, 1, True, 106),
        ("train.py --model_name_or_path llama-7b --fsdp", {}, 8, True, 15),
        ("train.py --model_name_or_path llama-7b --lora", {}, 1, True, 16),
        ("train.py --epochs 80", {}, 1, True, 0),
    ],
)  # fmt: skip
def test_what_a_command_line_wants(argv, env, devices, training, gib):
    assert wanted_mib(argv.split(), env, devices, training=training) // 1024 == gib


def test_a_gpu_is_used_unless_somebody_says_otherwise():
    assert not on_cpu(("python", "train.py"), {"CUDA_VISIBLE_DEVICES": "0,1"})


@pytest.mark.parametrize(
    ("image", "port", "path", "line"),
    [
        ("vllm/vllm-openai:v0.10.1", 8000, "/health", "INFO:     Application startup complete."),
        ("nvcr.io/nvidia/tritonserver:25.03-py3", 8000, "/v2/health/ready", '"Started HTTPService at 0.0.0.0:8000"'),
        (
            "ghcr.io/huggingface/text-generation-inference:3.3.4",
            80,
            "/health",
            "text_generation_launcher: Starting Web",
        ),
    ],
)
async def test_inference_servers_start_in_their_own_words_and_load_their_gpu(image, port, path, line):
    async with world(count=1) as w:
        args = ["--model", "m"] if "triton" not in image else ["tritonserver", "--model-repository=/models"]
        await w.create("pods", pod("serve", trainer(1, image, (), args=args)))
        await w.tick(120)
        assert line in log(w, "serve")
        server = w.kubelets.fabric.find((await w.pod("serve"))["status"]["podIP"], port)
        assert (await server.respond(Request("GET", path))).status == 200
        device = w.kubelets.gpus(w.node_names[0]).board.devices[0]
        assert read(device, w.clock.now()).used > 60000


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.6.3", "0.6.3"),
        ("nvcr.io/nvidia/tritonserver:25.03-py3", "2.56.0"),
        ("nvcr.io/nvidia/tritonserver:24.01-py3", "2.42.0"),
        ("ghcr.io/huggingface/text-generation-inference:3.3.4", "3.3.4"),
    ],
)
def test_an_inference_server_has_the_version_of_its_image(image, version):
    assert server_version(pull(image, "amd64")) == version


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (["--model", "meta-llama/Llama-3.1-8B-Instruct"], "meta-llama/Llama-3.1-8B-Instruct"),
        (["--model=a/b", '--served-model-name=say "x"'], 'say "x"'),
        ([], "Qwen/Qwen3-0.6B"),
    ],
)
async def test_vllm_serves_the_model_that_it_was_asked_for(args, name):
    record = SimpleNamespace(images={VLLM: pull(VLLM, "amd64")})
    pages = servers.known(record, {"image": VLLM, "args": args}, inside=None, age=lambda: 20.0, course=None)[8000]
    answer = await pages.respond(Request("GET", "/v1/models"))
    assert json.loads(answer.body)["data"][0]["id"] == name


async def test_an_inference_server_is_ready_when_its_log_says_so():
    async with world(count=1) as w:
        probe = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1}
        await w.create("pods", pod("serve", trainer(1, VLLM, (), readinessProbe=probe)))
        await w.tick(10)
        assert not state(await w.pod("serve"))["ready"]
        assert "connect: connection refused" in (await w.messages("Unhealthy"))[0]
        await w.tick(10)
        assert state(await w.pod("serve"))["ready"]
