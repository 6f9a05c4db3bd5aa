"""nccl-tests and NCCL's log: bandwidth and lines that follow from devices, links, network and environment."""

from __future__ import annotations

import asyncio
import re

import pytest

from kubesim.gpu.nccl import Communicator, Member
from kubesim.gpu.readings import read
from kubesim.tests.containers import run, state
from kubesim.tests.test_gpu_containers import trainer
from kubesim.tests.test_mpirun import ALLOWED, typed, waiting_launcher
from kubesim.tests.test_network import policy
from kubesim.tests.world import container, pod, world

SMALL = ("-b", "1M", "-e", "64M", "-f", "8", "-n", "5")


@pytest.fixture
async def cluster():
    async with waiting_launcher(gpus=4) as w:
        yield w


def rows(out):
    """Return (size, count, time, algbw, busbw) of each row."""
    found = [line.split() for line in out.splitlines() if re.match(r" +\d+ +\d+ ", line)]
    return [(int(row[0]), int(row[1]), *map(float, row[5:8])) for row in found]


async def alone(w, *command, gpus=4, seconds=10):
    await w.create("pods", pod("bench", trainer(gpus, command=("sleep", "100000")), restartPolicy="Never"))
    await w.tick(10)
    return await typed(w, *command, on="bench", seconds=seconds)


async def test_the_table_has_the_form_of_the_program_and_its_figures_agree():
    async with world(count=1, gpus=8) as w:
        status, out, errors = await alone(w, "all_reduce_perf", "-b", "8", "-e", "1G", "-f", "2", "-g", "8", gpus=8)
    assert (status, errors) == (0, "")
    assert out.startswith(
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 "
        "validation: 1 graph: 0\n#\n# Using devices\n#  Rank  0 Group  0 Pid "
    )
    assert len(rows(out)) == 28
    for size, count, micro, algorithm, bus in rows(out):
        assert count == size // 4
        assert abs(algorithm - size / micro / 1e3) <= 0.01 * algorithm + 0.01
        assert abs(bus - algorithm * 2 * 7 / 8) <= 0.02
    assert rows(out)[-1][4] > 400  # NVSwitch adds for the ranks
    assert re.search(r"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : [\d.]+ \n#\n", out)


async def test_links_are_faster_than_the_network_between_hosts(cluster):
    _, near, _ = await typed(cluster, *ALLOWED, "-np", "4", "all_gather_perf", *SMALL)
    _, far, _ = await typed(cluster, *ALLOWED, "-np", "8", "all_gather_perf", *SMALL)
    assert near.count("on train-worker-0 device") == far.count("on train-worker-1 device") == 4
    assert rows(near)[-1][4] > 10 * rows(far)[-1][4] > 50


async def test_every_collective_has_its_own_columns(cluster):
    for name, (redop, root, factor) in {
        "broadcast": ("none", 0, 1.0),
        "reduce_scatter": ("sum", -1, 3 / 4),
        "alltoall": ("none", -1, 3 / 4),
        "sendrecv": ("sum", -1, 1.0),
    }.items():
        _, out, errors = await typed(cluster, *ALLOWED, "-np", "4", f"{name}_perf", "-b", "64M", "-e", "64M")
        assert f"  {redop:>6}  {root:6d}  " in out, errors
        ((_, _, _, algorithm, bus),) = rows(out)
        assert abs(bus - algorithm * factor) <= 0.02


async def test_two_runs_are_alike_but_not_the_same(cluster):
    one, other = [rows((await typed(cluster, *ALLOWED, "all_reduce_perf", *SMALL))[1]) for _ in range(2)]
    assert one != other
    assert all(abs(a[4] - b[4]) <= 0.1 * a[4] + 0.05 for a, b in zip(one, other, strict=True))


async def test_the_devices_work_while_a_test_runs_and_rest_afterwards(cluster):
    running = asyncio.ensure_future(
        run(cluster, "train-launcher", *ALLOWED, "all_reduce_perf", "-b", "4G", "-e", "4G", "-n", "2000")
    )
    await cluster.tick(20)
    boards = [cluster.kubelets.gpus(name).board for name in cluster.node_names]
    devices = [device for board in boards for device in board.devices]
    assert all(read(device, cluster.clock.now()).util > 90 for device in devices)
    assert {task.name for device in devices for task in device.tasks.values()} == {"all_reduce_perf"}
    running.cancel()
    await cluster.tick(20)
    assert not any(device.tasks for device in devices)


async def test_without_a_device_the_test_fails_with_cudas_own_error():
    async with world(count=1, gpus=2) as w:
        await w.create("pods", pod("plain", container("nvcr.io/nvidia/pytorch:25.03-py3", "sleep", "1000")))
        await w.tick(10)
        status, out, _ = await typed(w, "all_reduce_perf", on="plain")
        assert status == 2
        assert "plain: Test CUDA failure common.cu:941 'CUDA driver version is insufficient for CUDA runtime" in out
        status, out, _ = await alone(w, "all_reduce_perf", "-g", "4", gpus=2)
        assert (status, "'invalid device ordinal'" in out) == (2, True)
        _, out, _ = await typed(w, "env", "CUDA_VISIBLE_DEVICES=", "all_reduce_perf", on="bench")
        assert "'no CUDA-capable device is detected'" in out


async def test_an_xid_ends_the_rank_with_cudas_error_and_the_job_with_mpiruns(cluster):
    running = asyncio.ensure_future(
        run(cluster, "train-launcher", *ALLOWED, "all_reduce_perf", "-b", "4G", "-e", "4G")
    )
    await cluster.tick(5)
    node = (await cluster.pod("train-worker-1"))["spec"]["nodeName"]
    cluster.kubelets.gpus(node).board.xid(2, 79, cluster.clock.now())
    await cluster.tick(60)
    status, out, errors = await asyncio.wait_for(running, 10)
    assert status == 2
    assert "train-worker-1: Test CUDA failure common.cu:303 'unspecified launch failure'" in out
    assert "mpirun detected that one or more processes exited with non-zero status" in errors


async def test_nccl_describes_the_job_that_runs(cluster):
    command = (*ALLOWED, "-x", "NCCL_DEBUG=INFO", "-x", "NCCL_IB_DISABLE=1", "all_reduce_perf", *SMALL)
    _, out, _ = await typed(cluster, *command)
    address = (await cluster.pod("train-worker-1"))["status"]["podIP"]
    assert f"[0] NCCL INFO NET/Socket : Using [0]eth0:{address}<0>" in out
    assert out.count("NCCL INFO NCCL version 2.25.1+cuda12.8") == 1
    assert "NCCL_IB_DISABLE set by environment to 1." in out
    assert "rank 5 nRanks 8 nNodes 2 localRanks 4 localRank 1 MNNVL 0" in out
    assert "Channel 00/0 : 3[3] -> 4[0] [send] via NET/Socket/0" in out
    assert "Channel 01/0 : 4[0] -> 5[1] via P2P/CUMEM" in out
    assert "Trees [0] 1/4/-1->0->-1 [1] 1/4/-1->0->-1" in out
    assert out.count(" - Init COMPLETE") == 8
    commons = set(re.findall(r"commId (0x[0-9a-f]+)", out))
    assert len(commons) == 1


async def test_the_environment_chooses_transport_interface_and_detail(cluster):
    base = (*ALLOWED, "-np", "2")
    small = ("all_reduce_perf", "-b", "64M", "-e", "64M")
    _, fast, _ = await typed(cluster, *base, *small)
    _, slow, _ = await typed(cluster, *base, "-x", "NCCL_P2P_DISABLE=1", "-x", "NCCL_DEBUG=INFO", *small)
    assert "via SHM/direct/direct" in slow
    assert rows(fast)[0][4] > 5 * rows(slow)[0][4]
    _, out, _ = await typed(cluster, *base, "-x", "NCCL_DEBUG=VERSION", *small)
    assert re.findall(r".*NCCL version.*", out) == ["NCCL version 2.25.1+cuda12.8"]
    _, out, _ = await typed(cluster, *base, "-x", "NCCL_DEBUG=INFO", "-x", "NCCL_DEBUG_SUBSYS=COLL", *small)
    assert {line.split("NCCL INFO ")[1][:18] for line in out.splitlines() if "NCCL INFO" in line} == {
        "AllReduce: opCount"
    }
    status, out, _ = await typed(cluster, *base, "-x", "NCCL_SOCKET_IFNAME=ib0", "-x", "NCCL_DEBUG=WARN", *small)
    assert status == 3
    assert "NCCL WARN Bootstrap : no socket interface found" in out
    assert "Test NCCL failure common.cu:1012 'invalid usage (run with NCCL_DEBUG=WARN for details)" in out


async def test_a_policy_between_the_workers_lets_nccl_knock_until_it_gives_up(cluster):
    ssh = [{"ports": [{"port": 22}]}]
    allowed = policy("ssh-only", ingress=ssh)
    allowed["spec"]["podSelector"] = {"matchLabels": {"training.kubeflow.org/job-role": "worker"}}
    await cluster.create("networkpolicies.networking.k8s.io", allowed)
    command = (*ALLOWED, "-N", "1", "-x", "NCCL_DEBUG=INFO", "all_reduce_perf", *SMALL)
    status, out, _ = await typed(cluster, *command, seconds=6000)
    assert status == 3
    assert "returned Connection timed out, retrying (1/34) after sleep for 100 msec" in out
    assert "remote process exited or there was a network error" in out


async def test_ranks_hold_memory_of_their_host_too():
    async with world(count=1, gpus=2) as w:
        main = trainer(2, command=("all_reduce_perf", "-g", "2"))
        main["resources"]["limits"]["memory"] = "1Gi"
        await w.create("pods", pod("bench", main, restartPolicy="Never"))
        await w.tick(30)
        assert state(await w.pod("bench"))["state"]["terminated"]["reason"] == "OOMKilled"


async def test_wrong_options_are_the_programs_own_errors(cluster):
    status, out, errors = await typed(cluster, "all_reduce_perf", "-q", on="train-worker-0", where="worker")
    assert (status, errors) == (1, "all_reduce_perf: invalid option -- 'q'\n")
    assert "USAGE: all_reduce_perf" in out
    command = ("all_reduce_perf", "-b", "lots")
    status, _, errors = await typed(cluster, *command, on="train-worker-0", where="worker")
    assert (status, errors) == (255, "invalid size specified for 'minbytes'\n")


async def test_a_link_that_is_down_and_a_lesser_product_are_slower():
    async with world(count=1, gpus=4) as w:
        board = w.kubelets.gpus(w.node_names[0]).board
        members = [Member("a", index, "10.0.0.1", index, device) for index, device in enumerate(board.devices)]
        before = Communicator(members).speed("all_gather")
        board.xid(1, 74, w.clock.now())
        assert Communicator(members).speed("all_gather") < before
