"""train.py: a file of the images for training that does what its text says, changed or not."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
import yaml

from kubesim import kubelet
from kubesim.gpu import collectives
from kubesim.kubelet import behaviours
from kubesim.kubelet.images import pull
from kubesim.tests.containers import cat, log, run, state
from kubesim.tests.test_gpu_containers import PYTORCH, trainer
from kubesim.tests.world import container, pod, world

TEXTS = [
    *yaml.safe_load((Path(kubelet.__file__).parent / "failures.yaml").read_text("utf-8")).values(),
    *yaml.safe_load((Path(collectives.__file__).parent / "collectives.yaml").read_text("utf-8")).values(),
]
FRAME = re.compile(r'File "(?:\{script\}|/workspace/train.py)", line (\d+), in (\S+)\n(?:\[rank\{rank\}\]:)? *(.*)')
SCRIPT = next(iter(behaviours.scripts(pull(PYTORCH, "amd64"), ("bash",), "/").values()))
CHANGED = SCRIPT.replace("import torch\n", "print('changed')\nraise SystemExit(7)\n", 1)


def test_the_tracebacks_of_training_point_at_the_lines_of_its_script():
    lines, found = SCRIPT.splitlines(), [frame for text in TEXTS for frame in FRAME.findall(text)]
    assert len({number for number, _, _ in found}) >= 7
    for number, function, line in found:
        assert lines[int(number) - 1].strip() == line
        above = [each for each in lines[: int(number)] if each.startswith(("def ", "if ", "    def "))]
        assert function in above[-1] or (function, above[-1][:3]) == ("<module>", "if ")


def test_the_script_of_the_images_is_python():
    compile(SCRIPT, "train.py", "exec")


@pytest.mark.parametrize("where", ["/workspace/train.py", "/opt/fit/run.py"])
async def test_the_script_that_runs_can_be_read(where):
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(1, command=("python", where))))
        await w.tick(30)
        assert await cat(w, "train", where) == SCRIPT
        assert (await run(w, "train", "wc", "-l", where))[1] == f"142 {where}\n"
        assert (await run(w, "train", "sh", "-c", f"head -n 1 {where}"))[1].startswith('"""Train a vision')
        assert "INFO:root:Starting training" in log(w, "train")


async def test_a_copy_trains_until_somebody_changes_it():
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(1, command=("sleep", "infinity"))))
        await w.tick(5)
        line = "cp train.py /tmp/my.py; cd /tmp; timeout 9 python my.py; echo $?; sed -i 's/Starting/No/' my.py; "
        line += "sed -i 's/^import torch$/raise SystemExit(7)/' my.py; python my.py; echo $?"
        shown = (await passed(w, run(w, "train", "sh", "-c", line), 12))[1].splitlines()
        assert shown[-3:] == ["INFO:root:Starting training", "124", "7"]


async def passed(w, what, seconds):
    """Return what comes of something that takes some seconds."""
    task = asyncio.ensure_future(what)
    await w.tick(seconds)
    return await task


@pytest.mark.parametrize(
    "words", [("python", "nosuch.py"), ("python", "-m", "nosuch.module"), ("python", "-c", "x=1/0")]
)
async def test_what_is_not_there_does_not_train(words):
    async with world(count=1) as w:
        await w.create("pods", pod("train", trainer(1)))
        await w.tick(5)
        status, out, error = await run(w, "train", *words)
        assert (status, out) == (2 if words[1] == "nosuch.py" else 1, "")
        last = error.splitlines()[-1]
        assert last in (
            "python: can't open file '/workspace/nosuch.py': [Errno 2] No such file or directory",
            "/usr/local/bin/python: Error while finding module specification for 'nosuch.module' "
            "(ModuleNotFoundError: No module named 'nosuch')",
            "ZeroDivisionError: division by zero",
        )


@pytest.mark.parametrize("command", [("python", "/job/train.py"), ("python", "-u", "train.py")])
async def test_a_script_in_a_config_map_runs_as_it_is_written_after_a_restart(command):
    async with world(count=1) as w:
        await w.create("configmaps", {"metadata": {"name": "job"}, "data": {"train.py": SCRIPT}})
        main = trainer(1, command=command, workingDir="/job", volumeMounts=[{"name": "job", "mountPath": "/job"}])
        volumes = [{"name": "job", "configMap": {"name": "job"}}]
        for text in (SCRIPT, CHANGED):
            await w.client.patch("configmaps", "job", "default", {"data": {"train.py": text}})
            await w.create("pods", pod("train", main, volumes=volumes, restartPolicy="Never"))
            await w.tick(30)
            if text == SCRIPT:
                assert "INFO:root:Starting training" in log(w, "train")
                await w.client.delete("pods", "train", "default")
                await w.tick(40)
        assert log(w, "train") == "changed\n"
        assert state(await w.pod("train"))["state"]["terminated"]["exitCode"] == 7


PLACES = "import os, sys\nsys.stdout.write(' '.join(os.environ[each] for each in sys.argv[1:]) + '\\n')\n"
NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


async def launched(w, command, script, gpus=2):
    """Return the log of a command on a script in a ConfigMap."""
    await w.create("configmaps", {"metadata": {"name": "job"}, "data": {"job.py": script}})
    main = trainer(gpus, command=command, volumeMounts=[{"name": "job", "mountPath": "/job"}])
    volumes = [{"name": "job", "configMap": {"name": "job"}}]
    await w.create("pods", pod("train", main, volumes=volumes, restartPolicy="Never"))
    await w.tick(40)
    return log(w, "train")


@pytest.mark.parametrize(
    "command",
    [("torchrun", "--nproc_per_node=gpu"), ("python", "-m", "torch.distributed.run", "--nproc-per-node", "2"),
     ("sh", "-c", 'torchrun --standalone --nproc_per_node=2 "$@"', "sh")],
)  # fmt: skip
async def test_torchrun_starts_a_written_script_once_for_each_rank(command):
    async with world(count=1) as w:
        lines = (await launched(w, (*command, "/job/job.py", *NAMES), PLACES)).splitlines()
        own = [line.split() for line in lines if "torch/distributed/run.py" not in line]
        assert sorted(own) == [[str(at), str(at), "2", "2", "localhost", "29500"] for at in (0, 1)]
        assert sum("Setting OMP_NUM_THREADS" in line for line in lines) == 1
        assert state(await w.pod("train"))["state"]["terminated"]["exitCode"] == 0


async def test_torchrun_tells_which_rank_has_failed_and_ends_the_others():
    script = "import os, time\nif os.environ['RANK'] == '1':\n    raise ValueError('odd')\ntime.sleep(1000)\n"
    async with world(count=1) as w:
        shown = await launched(w, ("torchrun", "--nproc_per_node=2", "--tee=3", "/job/job.py"), script)
        assert '[default1]:  File "/job/job.py", line 3, in <module>\n[default1]:    raise ValueError' in shown
        assert "closing signal SIGTERM" in shown
        assert "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:" in shown
        assert re.search(r"job\.py FAILED\n-+\nFailures:\n  <NO_OTHER_FAILURES>\n-+\nRoot Cause", shown)
        assert re.search(r"rank      : 1 \(local_rank: 1\)\n  exitcode  : 1 \(pid: \d+\)", shown)
        assert state(await w.pod("train"))["state"]["terminated"]["exitCode"] == 1


async def test_torchrun_starts_a_failed_group_again_as_often_as_it_is_told():
    script = "print('go')\nraise SystemExit(3)\n"
    async with world(count=1) as w:
        shown = await launched(w, ("torchrun", "--nproc_per_node=1", "--max_restarts=2", "/job/job.py"), script)
        assert shown.count("go\n") == 3
        assert "1/2 attempts left; will restart worker group" in shown
        assert "exitcode  : 3" in shown


async def test_an_edited_copy_meets_the_other_ranks_of_mpirun():
    script = SCRIPT.replace('logging.info("Starting training")', 'logging.info("met as %d", rank)\n    return')
    async with world(count=1) as w:
        command = ("mpirun", "--allow-run-as-root", "-np", "2", "--oversubscribe", "-x", "MASTER_ADDR=localhost")
        shown = await launched(w, (*command, "-x", "MASTER_PORT=29500", "python", "/job/job.py"), script)
        assert "world size 2" in shown
        assert "INFO:root:met as 0" in shown
        assert state(await w.pod("train"))["state"]["terminated"]["exitCode"] == 0


async def test_mpirun_runs_a_written_script_with_its_own_variables():
    script = "import os\nprint(os.environ['OMPI_COMM_WORLD_RANK'], os.environ['OMPI_COMM_WORLD_SIZE'])\n"
    async with world(count=1) as w:
        command = ("mpirun", "--allow-run-as-root", "-np", "2", "--oversubscribe", "python", "/job/job.py")
        assert sorted((await launched(w, command, script)).splitlines()) == ["0 2", "1 2"]


REDUCE = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
mine = torch.tensor([float(dist.get_rank() + 1), 2.0])
dist.all_reduce(mine)
parts = [torch.zeros(1) for _ in range(dist.get_world_size())]
dist.all_gather(parts, torch.tensor([10.0 * dist.get_rank()]))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
model(torch.ones(1, 2) * (dist.get_rank() + 1)).sum().backward()
grad = model.module.weight.grad.tolist()
dist.barrier()
os.write(1, f"{mine.tolist()} {[part.item() for part in parts]} {grad}\\n".encode())
assert dist.get_rank() == 0, "not the first"
"""


async def test_ranks_exchange_what_they_have():
    async with world(count=1) as w:
        shown = await launched(w, ("torchrun", "--nproc_per_node=2", "/job/job.py"), REDUCE)
        assert shown.count("[3.0, 4.0] [0.0, 10.0] [[1.5, 1.5]]\n") == 2
        assert "[rank1]: AssertionError: not the first" in shown


async def test_ranks_of_several_pods_find_each_other_and_time_out_where_they_cannot():
    async with world(count=2) as w:
        await w.create("configmaps", {"metadata": {"name": "job"}, "data": {"job.py": REDUCE}})
        await w.create(
            "services", {"metadata": {"name": "job"}, "spec": {"clusterIP": "None", "selector": {"job": "a"}}}
        )
        for number, master in ((0, "job-0.job"), (1, "job-0.job"), (2, "nowhere")):
            values = {"MASTER_ADDR": master, "MASTER_PORT": "29500", "WORLD_SIZE": "2", "RANK": str(min(number, 1))}
            env = [{"name": key, "value": value} for key, value in values.items()]
            mounts = [{"name": "job", "mountPath": "/job"}]
            main = container(PYTORCH, "python", "/job/job.py", env=env, volumeMounts=mounts)
            made = pod(f"job-{number}", main, hostname=f"job-{number}", subdomain="job", restartPolicy="Never",
                       volumes=[{"name": "job", "configMap": {"name": "job"}}])  # fmt: skip
            made["metadata"]["labels"] = {"job": "a"}
            await w.create("pods", made)
        await w.tick(30)
        assert "[3.0, 4.0] [0.0, 10.0]" in log(w, "job-0")
        assert log(w, "job-2") == ""
        await w.tick(600)
        assert "DistNetworkError: The client socket has timed out after 600" in log(w, "job-2").splitlines()[-1]


FILLS_HOST = "held = []\nwhile True:\n    held.append(bytearray(32 << 20))\n"
FILLS_GPU = (
    "import torch\nprint('begin', flush=True)\n"
    "kept = [torch.empty(8 << 30, dtype=torch.uint8, device='cuda') for _ in range(20)]\n"
)


@pytest.mark.parametrize(("script", "code", "reason"), [(FILLS_HOST, 137, "OOMKilled"), (FILLS_GPU, 1, "Error")])
async def test_too_much_memory_ends_a_script_as_the_kernel_or_as_cuda_does(script, code, reason):
    async with world(count=1) as w:
        await w.create("configmaps", {"metadata": {"name": "job"}, "data": {"job.py": script}})
        limits = {"limits": {"nvidia.com/gpu": "1", "memory": "200Mi"}}
        mounts = [{"name": "job", "mountPath": "/job"}]
        main = container(PYTORCH, "python", "/job/job.py", resources=limits, volumeMounts=mounts)
        volumes = [{"name": "job", "configMap": {"name": "job"}}]
        await w.create("pods", pod("train", main, volumes=volumes, restartPolicy="Never"))
        await w.tick(30)
        ended = state(await w.pod("train"))["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (code, reason)
        text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of"
        assert (text in log(w, "train")) == (reason == "Error")


COUNTS = """
import os
import torch

path = "/data/model.pt"
state = torch.load(path, weights_only=True) if os.path.exists(path) else {"step": 0, "weight": torch.zeros(3)}
state["step"], state["weight"] = state["step"] + 1, state["weight"] + 0.5
torch.save(state, path)
print(state["step"], state["weight"].tolist(), flush=True)
raise SystemExit(state["step"] < 3)
"""


async def test_checkpoints_on_a_volume_survive_restarts():
    async with world(count=1) as w:
        await w.create("configmaps", {"metadata": {"name": "job"}, "data": {"job.py": COUNTS}})
        mounts = [{"name": "job", "mountPath": "/job"}, {"name": "data", "mountPath": "/data"}]
        volumes = [{"name": "job", "configMap": {"name": "job"}}, {"name": "data", "emptyDir": {}}]
        main = container(PYTORCH, "python", "/job/job.py", volumeMounts=mounts)
        await w.create("pods", pod("train", main, volumes=volumes, restartPolicy="OnFailure"))
        await w.tick(60)
        assert log(w, "train") == "3 [1.5, 1.5, 1.5]\n"
        assert log(w, "train", previous=True) == "2 [1.0, 1.0, 1.0]\n"
        assert state(await w.pod("train"))["restartCount"] == 2


async def test_workers_of_a_loader_run_inline():
    script = (
        "import os, torch\nfrom torch.utils.data import DataLoader\n"
        "class Squares(torch.utils.data.Dataset):\n"
        "    __len__ = lambda self: 6\n    __getitem__ = lambda self, at: (at * at, os.getpid())\n"
        "loader = DataLoader(Squares(), batch_size=4, num_workers=2)\n"
        "print([values.tolist() for values, _ in loader], {pid for _, pids in loader for pid in pids.tolist()})\n"
    )
    async with world(count=1) as w:
        assert await launched(w, ("python", "/job/job.py"), script) == "[[0, 1, 4, 9], [16, 25]] {1}\n"


STEP = re.compile(r"INFO:root:step 100 loss (\d\.\d{4}) lr 3.00e-04 ([\d.]+) samples/s")
EDITED = SCRIPT.replace("Starting", "Begin").replace("step += 1", "step += 1 + 20019 * 90 * (step > 100)")


@pytest.mark.parametrize("text", [SCRIPT, EDITED], ids=["unchanged", "edited"])
async def test_an_edited_copy_trains_as_fast_as_the_script_of_the_image(text):
    async with world(count=1) as w:
        await w.create("configmaps", {"metadata": {"name": "job"}, "data": {"train.py": text}})
        mounts, volumes = [{"name": "job", "mountPath": "/job"}], [{"name": "job", "configMap": {"name": "job"}}]
        main = trainer(1, command=("python", "-u", "/job/train.py"), volumeMounts=mounts)
        await w.create("pods", pod("train", main, volumes=volumes))
        await w.tick(3)
        async with asyncio.timeout(60):  # the program's thread computes beside the clock
            while not (found := STEP.search(log(w, "train"))):
                await w.tick(0.2)
                await asyncio.sleep(0.005)
        assert ("INFO:root:Begin training" in log(w, "train")) == (text == EDITED)
        assert 1 < float(found[1]) < 7
        assert float(found[2]) == pytest.approx(2507, rel=0.06)
