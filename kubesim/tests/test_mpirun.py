"""mpirun and ssh in containers: processes in other pods, and Open MPI's and OpenSSH's own words where that fails."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager

import pytest

from kubesim.tests.containers import run
from kubesim.tests.installed import install
from kubesim.tests.test_mpi import JOBS, mpi_job
from kubesim.tests.test_network import policy
from kubesim.tests.world import container, pod, world

ALLOWED = ("mpirun", "--allow-run-as-root")


@asynccontextmanager
async def waiting_launcher(gpus):
    """A cluster of two workers with so many GPUs each, and a launcher that waits."""
    async with world(count=2, gpus=gpus) as w:
        await install(w, "mpi-operator")
        await w.create(JOBS, mpi_job(gpus=gpus, command=("sleep", "100000")))
        await w.tick(20)
        yield w


@pytest.fixture
async def cluster():
    async with waiting_launcher(gpus=2) as w:
        yield w


async def typed(w, *command, where="main", on="train-launcher", seconds=10):
    """Run a command and let time pass; (status, output, errors without the warnings of new host keys)."""
    running = asyncio.ensure_future(run(w, on, *command, where=where))
    await w.tick(seconds)
    status, out, errors = await asyncio.wait_for(running, 10)
    return status, out, re.sub(r"Warning: Permanently added .*\r\n", "", errors)


async def test_ranks_are_processes_of_the_workers(cluster):
    status, out, errors = await typed(cluster, *ALLOWED, "hostname")
    assert (status, errors) == (0, "")
    assert sorted(out.split()) == ["train-worker-0"] * 2 + ["train-worker-1"] * 2


async def test_ranks_see_the_devices_of_their_own_machines(cluster):
    _, out, _ = await typed(cluster, *ALLOWED, "-N", "1", "nvidia-smi", "-L")
    uuids = [line.rpartition("UUID: ")[2] for line in out.splitlines()]
    boards = [cluster.kubelets.gpus(name).board for name in cluster.node_names]
    assert sorted(uuids) == sorted(f"{device.uuid})" for board in boards for device in board.devices)


async def test_every_rank_knows_its_place_and_what_was_forwarded_and_nothing_else(cluster):
    script = "echo $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE/$OMPI_COMM_WORLD_LOCAL_RANK $A $B$SECRET"
    command = ("env", "A=1", "SECRET=2", *ALLOWED, "-x", "A", "-x", "B=3", "sh", "-c", script)
    _, out, _ = await typed(cluster, *command)
    assert sorted(out.splitlines()) == ["0/4/0 1 3", "1/4/1 1 3", "2/4/0 1 3", "3/4/1 1 3"]


async def test_the_environment_of_a_rank_is_that_of_a_login_not_of_the_container(cluster):
    _, out, _ = await typed(cluster, *ALLOWED, "-np", "1", "env")
    assert "SSH_CONNECTION=" in out
    assert "NVIDIA_PYTORCH_VERSION" not in out


PLACED = {
    ("-np", "3"): {"train-worker-0": "01", "train-worker-1": "2"},
    ("-np", "3", "--map-by", "node"): {"train-worker-0": "02", "train-worker-1": "1"},
    ("-np", "2", "-N", "1"): {"train-worker-0": "0", "train-worker-1": "1"},
    ("--map-by", "ppr:1:node"): {"train-worker-0": "0", "train-worker-1": "1"},
    ("-np", "2", "-H", "train-worker-1.train.default.svc:2"): {"train-worker-1": "01"},
    ("-np", "6", "--oversubscribe"): {"train-worker-0": "012", "train-worker-1": "345"},
}


async def test_ranks_are_placed_as_the_options_say(cluster):
    for options, ranks in PLACED.items():
        _, out, _ = await typed(cluster, *ALLOWED, *options, "sh", "-c", "echo $OMPI_COMM_WORLD_RANK $(hostname)")
        found = {}
        for number, host in sorted(line.split() for line in out.splitlines()):
            found[host] = found.get(host, "") + number
        assert found == ranks, options


async def test_output_can_be_tagged_and_kept_in_a_file_for_each_rank(cluster):
    _, out, _ = await typed(
        cluster, *ALLOWED, "-np", "3", "--tag-output", "--output-filename", "/tmp/logs", "hostname"
    )
    assert sorted(out.splitlines()) == [
        "[1,0]<stdout>:train-worker-0",
        "[1,1]<stdout>:train-worker-0",
        "[1,2]<stdout>:train-worker-1",
    ]
    _, kept, _ = await typed(cluster, "cat", "/tmp/logs/1/rank.2/stdout")
    assert kept == "train-worker-1\n"


async def test_a_hostfile_names_other_hosts(cluster):
    script = "echo train-worker-1.train slots=1 > /tmp/h; mpirun --allow-run-as-root --hostfile /tmp/h hostname"
    assert (await typed(cluster, "sh", "-c", script))[1] == "train-worker-1\n"


async def test_a_colon_parts_several_programs_of_one_job(cluster):
    script = "echo $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE"
    _, out, _ = await typed(cluster, *ALLOWED, "-np", "1", "hostname", ":", "-np", "2", "sh", "-c", script)
    assert sorted(out.split()) == ["1/3", "2/3", "train-worker-0"]


async def test_without_hosts_the_ranks_run_here(cluster):
    _, out, _ = await typed(cluster, *ALLOWED, "-np", "2", "hostname", on="train-worker-1", where="worker")
    assert out == "train-worker-1\n" * 2


REFUSED = [
    (("mpirun", "hostname"), 1, "mpirun has detected an attempt to run as root."),
    (ALLOWED, 1, "mpirun could not find anything to do."),
    (
        (*ALLOWED, "-np", "9", "hostname"),
        1,
        "There are not enough slots available in the system to satisfy the 9\n",
    ),
    ((*ALLOWED, "hostnam"), 134, "mpirun was unable to find the specified executable file, and therefore\n"),
    ((*ALLOWED, "--frobnicate", "hostname"), 1, 'mpirun: Error: unknown option "--frobnicate"'),
    ((*ALLOWED, "-np", "two", "hostname"), 1, "Open MPI has detected that a parameter given to a command line\n"),
    ((*ALLOWED, "--hostfile", "/no", "hostname"), 1, "Open RTE was unable to open the hostfile:\n    /no\n"),
    ((*ALLOWED, "-H", "elsewhere", "hostname"), 1, "There are no allocated resources for the application:\n"),
    ((*ALLOWED, "false"), 1, "mpirun detected that one or more processes exited with non-zero status"),
    ((*ALLOWED, "sh", "-c", "kill -9 $$"), 137, "exited on signal 9 (Killed)."),
    (
        (*ALLOWED, "-wdir", "/no", "hostname"),
        134,
        "change to the specified working directory:\n\n  Working directory: /no\n",
    ),
]


async def test_mpirun_says_in_its_own_words_why_it_does_not_run(cluster):
    for command, status, words in REFUSED:
        found, _, errors = await typed(cluster, *command)
        assert (found, words in errors) == (status, True), errors


async def test_one_rank_that_dies_ends_all(cluster):
    script = "[ $OMPI_COMM_WORLD_RANK = 2 ] && exit 7; sleep 1000"
    status, _, errors = await typed(cluster, *ALLOWED, "sh", "-c", script)
    assert status == 7
    assert re.search(r"Process name: \[\[\d+,1\],2\]\n  Exit code:    7\n", errors)
    assert "sleep" not in (await run(cluster, "train-worker-0", "ps", "-ef", where="worker"))[1]


async def test_a_worker_that_goes_away_ends_the_job(cluster):
    running = asyncio.ensure_future(run(cluster, "train-launcher", *ALLOWED, "sleep", "1000"))
    await cluster.tick(10)
    await cluster.client.delete("pods", "train-worker-1", "default")
    await cluster.tick(60)
    status, _, errors = await asyncio.wait_for(running, 10)
    assert status == 1
    assert "ORTE has lost communication with a remote daemon." in errors


async def test_a_worker_without_a_daemon_fails_the_launch_in_the_words_of_both(cluster):
    await run(cluster, "train-worker-1", "rm", "/usr/local/mpi/bin/orted", where="worker")
    status, _, errors = await typed(cluster, *ALLOWED, "hostname")
    assert status == 1
    assert "/usr/local/mpi/bin/orted: No such file or directory" in errors
    assert "ORTE was unable to reliably start one or more daemons." in errors


async def test_ssh_runs_a_command_in_a_worker_and_returns_its_status(cluster):
    assert (await typed(cluster, "ssh", "train-worker-0.train", "hostname; exit 3"))[:2] == (3, "train-worker-0\n")
    assert (await typed(cluster, "ssh", "train-worker-1.train", "nvidia-smi", "-L"))[1].count("H100") == 2
    _, log, _ = await typed(cluster, "ssh", "root@train-worker-1.train", "sh", "-c", "'cat; echo $USER'")
    assert log == "root\n"


async def test_ssh_fails_as_the_network_and_the_keys_say(cluster):
    await cluster.create("pods", pod("plain", container("nvcr.io/nvidia/pytorch:25.03-py3", "sleep", "1000")))
    await cluster.tick(10)
    address = (await cluster.pod("train-worker-0"))["status"]["podIP"]
    assert (await typed(cluster, "ssh", address, "id", on="plain"))[::2] == (
        255,
        f"root@{address}: Permission denied (publickey,password).\r\n",
    )
    own = (await cluster.pod("plain"))["status"]["podIP"]
    assert (await typed(cluster, "ssh", own, "id"))[
        2
    ] == f"ssh: connect to host {own} port 22: Connection refused\r\n"
    unknown = "ssh: Could not resolve hostname train-worker-7: Name or service not known\r\n"
    assert (await typed(cluster, "ssh", "train-worker-7", "id"))[2] == unknown
    await cluster.create("networkpolicies.networking.k8s.io", policy("deny"))
    _, _, errors = await typed(cluster, "ssh", "-o", "ConnectTimeout=5", address, "id")
    assert errors == f"ssh: connect to host {address} port 22: Connection timed out\r\n"


HOSTILE = [
    "mpirun --allow-run-as-root --oversubscribe -np 900000000 hostname",
    "mpirun --allow-run-as-root --oversubscribe -np 99999999999999999999 hostname",
    "mpirun --allow-run-as-root --oversubscribe -np 2000 sleep 100",
    "echo train-worker-0.train slots=999999999 >/tmp/h; mpirun --allow-run-as-root --hostfile /tmp/h id",
    "ssh -p 99999999 train-worker-0.train id",
    "ssh -p x train-worker-0.train id",
    "OMPI_MCA_orte_hnp_uri=tcp://x:y all_reduce_perf",
    "OMPI_COMM_WORLD_LOCAL_RANK=x all_reduce_perf -g 0",
    "all_reduce_perf -b inf",
    "all_reduce_perf -g 999999999999",
    "orted -mca ess_base_vpid x -mca orte_hnp_uri y",
]


async def test_what_strangers_type_costs_little_and_ends(cluster):
    for line in HOSTILE:
        status, _, errors = await typed(cluster, "bash", "-c", line, seconds=20)
        assert status not in (0, 139), (line, errors)
