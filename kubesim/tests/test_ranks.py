"""Jobs of several pods: their ranks meet over the cluster's network, work together, hang together, and recover."""

from __future__ import annotations

import re

import orjson
import pytest

from kubesim import kubelet
from kubesim.gpu import collectives
from kubesim.gpu.readings import read
from kubesim.gpu.xids import HANG
from kubesim.tests.containers import state
from kubesim.tests.test_gpu_containers import PYTORCH
from kubesim.tests.test_network import policy
from kubesim.tests.world import container, pod, world

POLICIES = "networkpolicies.networking.k8s.io"
HEADLESS = {"metadata": {"name": "train"}, "spec": {"clusterIP": "None", "selector": {"job": "train"}}}


def variables(rank, size=2, **more):
    found = {"MASTER_ADDR": "train-0.train", "MASTER_PORT": "29500", "WORLD_SIZE": str(size), "RANK": str(rank)}
    return [{"name": name, "value": value} for name, value in {**found, **more}.items() if value]


def rank(number, command=("python", "/workspace/train.py"), size=2, policy="Always", gpus=8, **env):
    main = container(PYTORCH, *command, env=variables(number, size, **env))
    main["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    made = pod(f"train-{number}", main, hostname=f"train-{number}", subdomain="train", restartPolicy=policy)
    made["metadata"]["labels"] = {"job": "train", "rank": str(number)}
    return made


@pytest.fixture
async def two():
    async with world(count=2) as w:
        await w.create("services", HEADLESS)
        yield w


async def begin(w, *ranks, seconds=60):
    for each in ranks:
        await w.create("pods", each)
    await w.tick(seconds)


def log(w, number, **more):
    return w.kubelets.logs("default", f"train-{number}", "main", **more).decode()


async def readings(w, number):
    node = (await w.pod(f"train-{number}"))["spec"]["nodeName"]
    return [read(device, w.clock.now()) for device in w.kubelets.gpus(node).board.devices]


async def test_ranks_that_meet_work_together(two):
    await begin(two, rank(0, NCCL_DEBUG="INFO"), rank(1), seconds=120)
    assert "INFO:root:step 100 loss" in log(two, 0)
    assert "INFO:root:step 100 loss" in log(two, 1)
    address = (await two.pod("train-0"))["status"]["podIP"]
    assert f"train-0:1:1 [0] NCCL INFO Bootstrap: Using eth0:{address}<0>" in log(two, 0)
    assert re.search(r"rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 4000 commId 0x\w{16} - Init COMPLETE", log(two, 0))
    assert "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0" in log(two, 0)
    assert "NCCL" not in log(two, 1)
    assert all(reading.util > 80 for reading in [*await readings(two, 0), *await readings(two, 1)])


async def test_a_rank_that_is_missing_lets_the_master_wait_and_give_up(two):
    await begin(two, rank(0, policy="Never"), seconds=300)
    assert "step" not in log(two, 0)
    assert all(reading.util == 0 for reading in await readings(two, 0))
    await two.tick(400)
    assert log(two, 0).endswith(
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.\n"
    )
    assert state(await two.pod("train-0"))["state"]["terminated"]["exitCode"] == 1


async def test_a_rank_whose_master_has_no_name_says_so(two):
    await begin(two, rank(1, MASTER_ADDR="trainer-0.train", policy="Never"), seconds=30)
    wanted = "[c10d] The IPv6 network addresses of (trainer-0.train, 29500) cannot be retrieved (gai error: -2"
    assert wanted in log(two, 1)
    await two.tick(700)
    last = log(two, 1).splitlines()[-1]
    assert last == (
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms "
        "while trying to connect to (trainer-0.train, 29500)."
    )


async def test_a_master_that_listens_elsewhere_refuses(two):
    await begin(two, rank(0, MASTER_PORT="29400"), rank(1))
    assert "failed to connect to [train-0.train]:29500 (errno: 111 - Connection refused)." in log(two, 1)


async def test_a_variable_that_nobody_has_set_is_named(two):
    await begin(two, rank(0, MASTER_PORT="", policy="Never"), seconds=60)
    assert log(two, 0).endswith(
        "ValueError: Error initializing torch.distributed using env:// rendezvous: "
        "environment variable MASTER_PORT expected, but not set\n"
    )


async def test_a_policy_before_the_start_keeps_ranks_apart_until_it_goes(two):
    await two.create(POLICIES, policy("deny"))
    await begin(two, rank(0), rank(1), seconds=300)
    for number in (0, 1):
        assert "step" not in log(two, number)
    await two.client.delete(POLICIES, "deny", "default")
    await two.tick(300)
    assert "INFO:root:step" in log(two, 0)
    assert "INFO:root:step" in log(two, 1)


async def test_a_policy_in_the_middle_lets_all_hang_and_the_watchdog_end_them(two):
    await begin(two, rank(0), rank(1), seconds=120)
    await two.create(POLICIES, policy("deny"))
    await two.tick(60)
    before = [log(two, number) for number in (0, 1)]
    await two.tick(300)
    assert [log(two, number) for number in (0, 1)] == before
    for reading in [*await readings(two, 0), *await readings(two, 1)]:
        assert reading.util == 100
        assert reading.power < 0.3 * reading.device.product.power["limit"]
        assert reading.used > 60000
    await two.tick(300)
    for number in (0, 1):
        found = log(two, number, previous=True)
        assert f"[Rank {number}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" in found
        assert "Timeout(ms)=600000) ran for 6000" in found
        assert "terminate called after throwing an instance of 'c10::DistBackendError'" in found
        assert state(await two.pod(f"train-{number}"))["lastState"]["terminated"]["exitCode"] == 134
    await two.client.delete(POLICIES, "deny", "default")
    await two.tick(600)
    assert "INFO:root:step" in log(two, 0)
    assert "INFO:root:step" in log(two, 1)


async def test_a_way_that_opens_again_in_time_is_as_if_nothing_had_been(two):
    await begin(two, rank(0), rank(1), seconds=120)
    await two.create(POLICIES, policy("deny"))
    await two.tick(120)
    await two.client.delete(POLICIES, "deny", "default")
    last = log(two, 0).splitlines()[-1]
    await two.tick(60)
    after = log(two, 0).splitlines()
    step = int(last.split()[1])
    assert after[after.index(last) + 1].startswith(f"INFO:root:step {step + 100} ")
    assert state(await two.pod("train-0"))["restartCount"] == 0


async def test_a_gpu_that_falls_off_the_bus_lets_the_others_hang(two):
    await begin(two, rank(0), rank(1, policy="Never"), seconds=120)
    node = (await two.pod("train-1"))["spec"]["nodeName"]
    two.kubelets.gpus(node).board.xid(3, 79, two.clock.now())
    await two.tick(60)
    assert "CUDA error: unspecified launch failure" in log(two, 1)
    silent = log(two, 0)
    await two.tick(400)
    assert log(two, 0) == silent
    assert all(reading.util == 100 for reading in await readings(two, 0))
    await two.tick(200)
    assert "Watchdog caught collective operation timeout" in log(two, 0, previous=True)


@pytest.mark.parametrize("code", [62, 74, 119, 120])
async def test_one_gpu_whose_calls_do_not_return_lets_all_ranks_hang(two, code):
    await begin(two, rank(0, policy="Never"), seconds=3)  # so that the two do not look at the same moments
    await begin(two, rank(1, policy="Never"), seconds=120)
    node = (await two.pod("train-1"))["spec"]["nodeName"]
    two.kubelets.gpus(node).board.xid(3, code, two.clock.now(), HANG)
    await two.tick(10)
    before = [log(two, number) for number in (0, 1)]
    await two.tick(300)
    assert [log(two, number) for number in (0, 1)] == before
    last, other = [re.findall(r"step \d+ ", text)[-1] for text in before]
    assert last == other
    assert all(reading.util == 100 for reading in await readings(two, 0))
    assert [reading.util for reading in await readings(two, 1)] == [100, 100, 100, 0, 100, 100, 100, 100]
    assert (await two.client.get("nodes", node))["status"]["allocatable"]["nvidia.com/gpu"] == "7"
    await two.tick(400)
    for number in (0, 1):
        assert f"[Rank {number}] Watchdog caught collective operation timeout" in log(two, number)


async def test_a_rank_that_is_deleted_closes_its_connections(two):
    await begin(two, rank(0, NCCL_DEBUG="WARN", policy="Never"), rank(1), seconds=120)
    address = (await two.pod("train-1"))["status"]["podIP"]
    await two.client.delete("pods", "train-1", "default")
    await two.tick(60)
    assert f"NCCL WARN socketProgress: Connection closed by remote peer {address}<" in log(two, 0)
    assert "ncclRemoteError: A call failed possibly due to a network error" in log(two, 0)


async def test_an_interface_that_is_not_there_ends_a_rank(two):
    await begin(two, rank(0, NCCL_DEBUG="INFO"), rank(1, NCCL_SOCKET_IFNAME="ib0", NCCL_DEBUG="WARN", policy="Never"))
    assert "bootstrap.cc:231 NCCL WARN Bootstrap : no socket interface found" in log(two, 1)
    assert log(two, 1).endswith("[rank1]: Last error:\n[rank1]: Bootstrap : no socket interface found\n")


async def test_the_loopback_interface_is_refused_by_the_others(two):
    await begin(two, rank(0, policy="Never"), rank(1, NCCL_SOCKET_IFNAME="lo", policy="Never"), seconds=150)
    assert "connect to 127.0.0.1<" in log(two, 0)
    assert "returned Connection refused, exceeded error retry count after 35 attempts" in log(two, 0)


TORCHRUN = (
    *("torchrun", "--nnodes=2", "--nproc-per-node=8", "--rdzv-backend=c10d", "--rdzv-endpoint=train-0.train:29500"),
    "/workspace/train.py",
)


@pytest.mark.parametrize(
    "command", [TORCHRUN, ("bash", "-c", f"exec {' '.join(TORCHRUN)}")], ids=["own", "in a shell"]
)
async def test_torchrun_gives_ranks_by_itself(two, command):
    await begin(two, rank(0, command, NCCL_DEBUG="INFO"), rank(1, command, NCCL_DEBUG="INFO"), seconds=120)
    logs = log(two, 0) + log(two, 1)
    assert "rank 0 nranks 16" in logs
    assert "rank 8 nranks 16" in logs
    assert "INFO:root:step" in log(two, 1)
    assert all(reading.util > 80 for reading in [*await readings(two, 0), *await readings(two, 1)])
    await two.create(POLICIES, policy("deny"))
    await two.tick(700)
    found = log(two, 0, previous=True)
    assert "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:" in found
    assert "exitcode  : -6 (pid: " in found
    assert state(await two.pod("train-0"))["lastState"]["terminated"]["exitCode"] == 1


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("", "eth0"), ("eth", "eth0"), ("=eth0", "eth0"), ("=eth", ""), ("^lo,docker", "eth0"),
        ("ib0", ""), ("ens,eth0", "eth0"), ("lo", "lo"), ("^eth", "lo"),
    ],
)  # fmt: skip
def test_nccl_chooses_an_interface_by_its_variable(asked, found):
    assert collectives.interface(asked) == found


def test_a_job_of_one_pod_is_none():
    assert collectives.membership(("torchrun", "--nproc_per_node=8", "train.py"), {}) is None
    assert collectives.membership(("python", "train.py"), {"WORLD_SIZE": "1", "RANK": "0"}) is None
    assert collectives.membership(("sleep", "1"), {"WORLD_SIZE": "2"}) is None


@pytest.mark.parametrize("hangs", [False, True], ids=["working", "hanging"])
async def test_a_job_outlives_a_restart_of_the_simulator_and_does_not_notice(two, hangs):
    await begin(two, rank(0, NCCL_DEBUG="INFO"), rank(1, NCCL_DEBUG="INFO"), seconds=120)
    if hangs:
        await two.create(POLICIES, policy("deny"))
        await two.tick(60)
    before = log(two, 1)
    state_kept = orjson.loads(orjson.dumps(two.kubelets.changes()))
    await two.kubelets.stop()
    two.kubelets = await kubelet.start(two.client, two.clock, *two.node_names, state=state_kept)
    await two.tick(60)
    after = log(two, 1)
    assert after.startswith(before)
    assert all("INFO:root:step" in line for line in after[len(before) :].splitlines())
    assert (after == before) is hangs
    assert all(reading.util > 80 for reading in [*await readings(two, 0), *await readings(two, 1)])


def test_what_strangers_write_into_variables_costs_little():
    env = {"WORLD_SIZE": "9" * 5000, "RANK": "-1", "MASTER_ADDR": "a" * 10**6, "MASTER_PORT": "x"}
    assert collectives.membership(("python", "train.py"), env) is None
    env["WORLD_SIZE"] = "999999"
    own = collectives.membership(("python", "train.py"), env)
    assert own is not None
    assert (own.place, own.port, len(own.master)) == (0, 29500, 255)
