"""Clusters that are made, used and dropped leave nothing behind. ``make torture`` does it a thousand times."""

import asyncio
import gc
import os
import weakref
from pathlib import Path

from kubesim.clock import RealClock
from kubesim.cluster import Cluster, ClusterSpec
from kubesim.pki import CertificateAuthority
from kubesim.tests import hosts, quick
from kubesim.tests.hosts import make, token_of, until

CYCLES = 40 * int(os.environ.get("TORTURE_ROUNDS", "0")) or 8
FIRST = CYCLES // 4
SLACK_KB = 2048
PODS = "/api/v1/namespaces/default/pods"
POD = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "main", "image": "nginx:1.27"}]}}


def private_kb(pid):
    """Return the memory that a process shares with no other."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def descriptors(pid):
    return [*Path(f"/proc/{pid}/fd").iterdir()]


async def cycle(host, control, name):
    """Make a cluster, use it, drop it while a watch is open."""
    _, made = await make(control, name=name)
    async with host.client(token_of(made)) as user:
        async with user.post(PODS, json=POD) as response:
            assert response.status == 201
        async with user.get(PODS, params={"watch": "true"}) as stream:
            await stream.content.readline()
            async with control.delete(f"/control/clusters/{name}") as response:
                assert response.status == 200
            async with asyncio.timeout(60):
                while await stream.content.read(65536):
                    pass


async def test_a_dropped_cluster_leaves_no_process_no_file_and_no_memory_behind(tmp_path):
    memory = []
    with hosts.running(tmp_path) as host:
        front = host.children()[0]
        idle = len(descriptors(front))
        async with host.control() as control:
            for number in range(CYCLES):
                await cycle(host, control, f"c{number}")
                if number >= FIRST and number % FIRST == 0:
                    memory.append(private_kb(front))
        assert host.children() == [front]
        assert not any((tmp_path / "clusters").iterdir())
        sockets = (tmp_path / "sockets").readlink()
        assert not any(sockets.iterdir())
        connected = [path for path in descriptors(front) if path.exists()]
        await until(lambda: len(descriptors(front)) <= idle)
        assert connected
    assert not sockets.exists()
    assert memory[-1] - memory[0] < SLACK_KB


def test_a_stopped_cluster_leaves_no_object_and_no_task_behind():
    quick.run(stopped())


async def stopped():
    clusters, clock = weakref.WeakSet(), RealClock()
    authority, tasks = CertificateAuthority.create(clock.now()), len(asyncio.all_tasks())
    for number in range(3):
        spec = ClusterSpec(f"c{number}", clock.now(), nodes=1)
        cluster = await Cluster.create(spec, clock, "https://127.0.0.1:1", authority)
        clusters.add(cluster)
        await cluster.stop()
        del cluster
    gc.unfreeze()  # what other tests have set aside may hold on to ours
    try:
        async with asyncio.timeout(60):
            while len(asyncio.all_tasks()) > tasks or list(clusters):
                gc.collect()
                await asyncio.sleep(0.01)
    finally:
        gc.freeze()  # as the suite has it: else every later look goes through a million objects
