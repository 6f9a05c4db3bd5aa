"""Commands that a GPU engineer types in a training pod: none is nonsense, and their answers agree with each other."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from kubesim import data
from kubesim.tests.containers import run
from kubesim.tests.test_gpu_containers import trainer
from kubesim.tests.world import pod, world

PYTORCH = "nvcr.io/nvidia/pytorch:25.01-py3"
COMMANDS = data.read(Path(__file__).with_name("engineer_commands.yaml"))
MAX_TICKS, MAX_WAIT_S = 20, 60


@pytest.fixture
async def trained():
    """A pod that trains on two GPUs, and has for two minutes."""
    async with world(count=1) as w:
        main = trainer(2, image=PYTORCH)
        main["resources"]["limits"] |= {"cpu": "8", "memory": "32Gi"}
        await w.create("pods", pod("work", main))
        while (await w.pod("work"))["status"]["phase"] == "Pending":
            await w.tick(30)  # as long as the image takes
        await w.tick(120)
        yield w


async def typed(w, line):
    """Run a line of shell and let time pass until it ends; (status, output, errors)."""
    running = asyncio.ensure_future(run(w, "work", "bash", "-c", line))
    for _ in range(MAX_TICKS):
        await w.tick(2)
        if running.done():
            return running.result()
    return await asyncio.wait_for(running, MAX_WAIT_S)  # Python computes in a thread, in its own time


async def test_two_hundred_commands_answer_as_on_a_machine(trained):
    assert len(COMMANDS) >= 200
    wrong = []
    for line, status, pattern in COMMANDS:
        found, out, errors = await typed(trained, line)
        said = re.sub(r"\s+", " ", out + errors)
        if found != status or not re.search(pattern, said):
            wrong.append((line, found, said[:200]))
    assert wrong == []


async def numbers(w, line):
    """Return the whole numbers that a command prints."""
    return [int(each) for each in re.findall(r"\d+", (await typed(w, line))[1])]


async def test_everything_that_counts_processors_and_devices_counts_as_many(trained):
    for line in ("nproc", "grep -c ^processor /proc/cpuinfo", "lscpu | grep '^CPU(s)'"):
        assert await numbers(trained, line) == [208]
    for line in (
        "nvidia-smi -L | wc -l",
        "ls /dev/nvidia[0-9]* | wc -l",
        "echo $NVIDIA_VISIBLE_DEVICES | tr , '\\n' | wc -l",
        "all_reduce_perf -b 8 -e 8 -g 2 | grep -c Rank",
    ):
        assert await numbers(trained, line) == [2]


async def test_identities_and_versions_are_the_same_everywhere(trained):
    _, listed, _ = await typed(trained, "nvidia-smi -L | grep -o 'GPU-[0-9a-f-]*'")
    _, asked, _ = await typed(trained, "nvidia-smi --query-gpu=uuid --format=csv,noheader")
    _, given, _ = await typed(trained, "echo $NVIDIA_VISIBLE_DEVICES | tr , '\\n'")
    assert listed == asked == given
    _, one, _ = await typed(trained, "nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1")
    _, other, _ = await typed(trained, "nvidia-smi -q | grep 'Driver Version' | awk '{print $NF}'")
    assert one == other
    assert (await typed(trained, "uname -r"))[1].strip() in (await typed(trained, "cat /proc/version"))[1]


async def test_utilisation_and_memory_agree_within_their_sampling(trained):
    query = "nvidia-smi --query-gpu={} --format=csv,noheader,nounits"
    util = await numbers(trained, query.format("utilization.gpu"))
    sampled = await numbers(trained, "nvidia-smi dmon -c 1 -s u | tail -2 | awk '{print $2}'")
    assert all(abs(one - other) <= 10 for one, other in zip(util, sampled, strict=True))
    used, free, reserved, total = await numbers(
        trained, query.format("memory.used,memory.free,memory.reserved,memory.total") + " -i 0"
    )
    assert used + free + reserved == total
    assert (await numbers(trained, "nvidia-smi -q -d MEMORY -i 0 | grep -m1 Used"))[0] == used


async def test_limits_and_processes_agree(trained):
    assert await numbers(trained, "cat /sys/fs/cgroup/memory.max") == [32 << 30]
    assert await numbers(trained, "cat /sys/fs/cgroup/cpu.max") == [800_000, 100_000]
    _, first, _ = await typed(trained, "tr '\\0' ' ' < /proc/1/cmdline")
    _, shown, _ = await typed(trained, "ps -p 1 -o args=")
    assert first.strip() == shown.strip() == "python /workspace/train.py"
    (held,) = await numbers(trained, "ps -p 1 -o rss=")
    assert held << 10 <= 32 << 30
    _, busy, _ = await typed(trained, "ps -p 1 -o pcpu=")
    assert 100 < float(busy) <= 800
