"""Clusters that are made, used and dropped leave nothing behind. ``make torture`` does it a thousand times."""

import asyncio
import gc
import os
import weakref
from pathlib import Path

import yaml

from kubesim.clock import RealClock
from kubesim.cluster import ClusterSpec
from kubesim.serve import Address, many
from kubesim.tests import quick
from kubesim.tests.live import session, trust_of

CYCLES = 40 * int(os.environ.get("TORTURE_ROUNDS", "0")) or 8
FIRST = CYCLES // 4
SLACK_MB = 12
POD = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "main", "image": "nginx:1.27"}]}}


def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


async def cycle(host, url, name, clusters):
    """Make a cluster, use it, drop it while a watch is open."""
    spec = ClusterSpec(name, RealClock().now(), nodes=1)
    cluster, _ = await host.create(spec)
    clusters.add(cluster)
    config = cluster.admin_kubeconfig()
    token = yaml.safe_load(config)["users"][0]["user"]["token"]
    async with session(url, trust_of(config), token) as user:
        path = f"/clusters/{name}/api/v1/namespaces/default/pods"
        async with user.post(path, json=POD) as response:
            assert response.status == 201
        async with user.get(path, params={"watch": "true"}) as stream:
            await stream.content.readline()
            await host.drop(name)
            await stream.content.read()


def test_a_dropped_cluster_leaves_no_object_no_task_and_no_memory_behind(tmp_path):
    quick.run(cycles(tmp_path))


async def cycles(folder):
    clusters, memory = weakref.WeakSet(), []
    async with many(Address(), folder, RealClock()) as (host, url, _):
        tasks = len(asyncio.all_tasks())
        for number in range(CYCLES):
            await cycle(host, url, f"c{number}", clusters)
            if number >= FIRST and number % FIRST == 0:
                gc.collect()
                memory.append(resident())
        async with asyncio.timeout(120):  # the server's own farewell to the last connection
            while len(asyncio.all_tasks()) > tasks or list(clusters):
                gc.unfreeze()  # what other tests have set aside may hold on to ours
                gc.collect()
                await asyncio.sleep(0.01)
        assert not any((folder / "clusters").iterdir())
    assert memory[-1] - memory[0] < SLACK_MB
