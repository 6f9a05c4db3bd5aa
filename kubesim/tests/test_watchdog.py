"""Clusters that hang, die, grow or are killed: each is started again, and no other notices."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kubesim.tests import hosts
from kubesim.tests.hosts import cluster, gone, make, shown, token_of, until
from kubesim.times import micro
from kubesim.watchdog import PAUSES, STAYED_UP_S, TICK_S, USAGE_TICKS, ProcessUsage, RestartPauses, Watchdog, _seconds

DEFECT = """
import sys, time
from datetime import datetime
from pathlib import Path
from kubesim import heartbeat, watchdog
from kubesim.kubelet.pod import PodWorker

heartbeat.BEAT_S = 0.1
watchdog.TICK_S, watchdog.MIN_CPU_S = 0.3, 0.4  # the same looks, in less time
watchdog.MAX_RESIDENT_BYTES, watchdog.USAGE_TICKS = 256 << 20, 1
watchdog.PAUSES = (0.0, *[0.2] * 20)
data = Path(sys.argv[sys.argv.index("--data") + 1])
sync, hoard, hoarded = PodWorker.sync, [], data / "hoarded"

def is_kept(pod):  # else it would be gone when the cluster is started again, and the cluster well
    return any(pod["metadata"]["uid"].encode() in file.read_bytes() for file in data.glob("clusters/*/changes*.log"))

async def defective(self, pod):
    age = time.time() - datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()
    if pod["metadata"].get("labels", {}).get("app") == "hangs" and age > 1 and is_kept(pod):
        while True:
            pass
    if pod["metadata"].get("labels", {}).get("app") == "hoards" and not hoarded.exists():
        hoarded.touch()
        hoard.append(b"x" * (400 << 20))
    return await sync(self, pod)

PodWorker.sync = defective
"""
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """A host whose kubelets hang over the pods of one app, and never let go of memory for another."""
    with hosts.running(tmp_path_factory.mktemp("watchdog"), defect=hosts.NO_IMAGES + DEFECT) as host:
        yield host


def deployment(app):
    container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "1"]}
    pod = {"metadata": {"labels": {"app": app}}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": app}}, "template": pod}
    return {"metadata": {"name": app}, "spec": spec}


async def newest(host, before):
    """Return the process that was started last."""
    return await until(lambda: next(iter(set(host.children()) - set(before)), None))


async def restarted(host, name, times):
    """Wait until a cluster was started again so often, and answers."""

    async def answers():
        found = await shown(host, name)
        if found["restarts"] < times:
            return None
        async with host.client(token_of(found)) as admin:
            with suppress(TimeoutError):
                async with asyncio.timeout(1), admin.get(PODS) as response:
                    return found if response.status == 200 else None
        return None

    return await until(answers)


async def hangs_over_an_object(host):
    async with cluster(host, "stuck") as admin:
        for app in ("innocent", "hangs"):
            async with admin.post(DEPLOYMENTS, json=deployment(app)) as response:
                assert response.status == 201
        await restarted(host, "stuck", 2)

        async def removed():
            return (await shown(host, "stuck"))["removed"]

        (found,) = await until(removed)
        assert (found["resource"], found["namespace"], found["name"]) == ("deployments.apps", "default", "hangs")
        async with admin.get(DEPLOYMENTS) as response:
            assert [item["metadata"]["name"] for item in (await response.json())["items"]] == ["innocent"]
        async with admin.get(PODS) as response:
            assert {item["metadata"]["labels"]["app"] for item in (await response.json())["items"]} == {"innocent"}


async def is_stopped(host):
    before = host.children()
    async with cluster(host, "still") as admin:
        pid = await newest(host, before)
        async with admin.post(DEPLOYMENTS, json=deployment("kept")) as response:
            assert response.status == 201
        kept = host.folder / "clusters" / "still" / "changes.log"
        await until(lambda: b'"kept"' in kept.read_bytes())
        os.kill(pid, signal.SIGSTOP)
        found = await restarted(host, "still", 1)
        assert gone(pid)
        async with admin.get(f"{DEPLOYMENTS}/kept") as response:
            assert response.status == 200
        assert found["removed"] == []


async def keeps_answering(host, begun, done):
    async with cluster(host, "calm") as admin:
        begun.set()
        while not done.is_set():
            async with asyncio.timeout(30), admin.get(PODS) as response:
                assert response.status == 200
            await asyncio.sleep(0.05)
        assert (await shown(host, "calm"))["restarts"] == 0


async def test_clusters_that_hang_are_started_again_while_another_answers(host):
    begun, done = asyncio.Event(), asyncio.Event()
    calm = asyncio.create_task(keeps_answering(host, begun, done))
    await begun.wait()
    await is_stopped(host)
    await hangs_over_an_object(host)
    done.set()
    await calm


async def test_a_hung_cluster_is_dropped_at_its_deadline(host):
    """The watchdog may start it again before: whatever is started hangs as well."""
    before, hung = set(host.children()), set()
    async with host.control() as control:
        assert (await make(control, name="late"))[0] == 201

        async def answered(method, **fields):
            async with control.request(method, "/control/clusters/late", **fields) as response:
                return response.status

        async def dropped():
            for pid in {*host.children()} - before - hung:
                hung.add(pid)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            return await answered("GET") == 404

        moved = asyncio.create_task(answered("PATCH", json={"ttlSeconds": 2}))
        await until(dropped)
        await moved
        await until(lambda: all(map(gone, hung)))
        await until(lambda: not (host.folder / "clusters" / "late").exists())


async def test_a_cluster_that_is_dropped_before_its_process_was_forked_holds_up_no_other(host):
    before = host.children()
    async with host.control() as control:
        os.kill(host.process.pid, signal.SIGSTOP)  # which forks
        try:
            code, _ = await make(control, name="early", ttlSeconds=1)
        finally:
            os.kill(host.process.pid, signal.SIGCONT)
        assert code == 404
        async with asyncio.timeout(60), cluster(host, "next"):
            pass
    await until(lambda: host.children() == before)


async def test_a_deadline_can_be_moved_while_the_cluster_hangs(host):
    before = host.children()
    async with cluster(host, "moved"):
        os.kill(await newest(host, before), signal.SIGSTOP)
        later = micro(datetime.now(UTC) + timedelta(hours=1))
        async with host.control() as control:
            response = await control.patch("/control/clusters/moved", json={"deadline": later})
            assert (response.status, (await response.json())["deadline"]) == (200, later)


async def test_a_cluster_that_takes_too_much_memory_is_started_again(host):
    before = host.children()
    async with cluster(host, "large") as admin:
        pid = await newest(host, before)
        template = deployment("hoards")["spec"]["template"]
        template["metadata"]["name"] = "large"
        async with admin.post(PODS, json=template) as response:
            assert response.status == 201
        await until(lambda: gone(pid))
        assert (await restarted(host, "large", 1))["restarts"] >= 1


async def test_a_killed_cluster_is_started_again_and_loses_nothing_that_was_written(host):
    before = host.children()
    async with cluster(host, "killed") as admin:
        for _ in range(2):
            pid = await newest(host, before)
            os.kill(pid, signal.SIGKILL)
            await until(lambda pid=pid: gone(pid))
            before.append(pid)
        found = await restarted(host, "killed", 2)
        assert found["removed"] == [], "nobody knows why it was killed"
        async with admin.get("/api/v1/namespaces/default") as response:
            assert response.status == 200


async def test_a_process_has_low_priority_and_no_core_file(host):
    before = host.children()
    async with cluster(host, "modest"):
        pid = await newest(host, before)
        limits = Path(f"/proc/{pid}/limits").read_text()
        assert os.getpriority(os.PRIO_PROCESS, pid) > os.getpriority(os.PRIO_PROCESS, host.process.pid)
        assert [line.split()[4] for line in limits.splitlines() if line.startswith("Max core")] == ["0"]
        assert [line.split()[-3] for line in limits.splitlines() if line.startswith("Max address")] == ["unlimited"]


async def test_no_process_outlives_a_killed_parent_or_front_and_all_comes_back(tmp_path):
    host = hosts.start(tmp_path)
    async with host.control() as control:
        made = [(await make(control, name=name))[1] for name in ("a", "b")]
    for victim in ("parent", "front"):
        front, first, second = host.children()
        os.kill(second, signal.SIGSTOP)
        if victim == "front":
            os.kill(front, signal.SIGKILL)
            assert host.process.wait(60) == 1
        assert hosts.stop(host, signal.SIGKILL)
        await until(lambda pids=(front, first, second): all(map(gone, pids)))
        host = hosts.start(tmp_path, "--port", host.port)
        for found in made:
            async with host.client(token_of(found)) as admin, admin.get("/api/v1/namespaces/default") as response:
                assert response.status == 200
    hosts.stop(host)


async def test_a_signal_to_all_processes_ends_them_in_good_order(tmp_path, capfd):
    host = hosts.start(tmp_path)
    async with host.control() as control:
        _, made = await make(control, name="a")
    async with host.client(token_of(made)) as admin, admin.post(DEPLOYMENTS, json=deployment("last")) as response:
        assert response.status == 201
    processes = host.children()
    for pid in (*processes, host.process.pid):  # as the supervisor does, and Ctrl-C
        os.kill(pid, signal.SIGTERM)
    assert host.process.wait(60) == 0
    hosts.stop(host)
    assert all(map(gone, processes))
    assert "ERROR" not in capfd.readouterr().err
    assert b'"last"' in (tmp_path / "clusters" / "a" / "changes.log").read_bytes()


class BusyProcess:
    """A process as a watchdog sees it, which computes a share of the time."""

    def __init__(self, share):
        self.share = share
        self.child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.pid = self.child.pid

    def watched(self, seconds):
        """Return its niceness after so many seconds of the watchdog's looks at what it has used."""
        dog, before = Watchdog("busy", self), ProcessUsage(1 << 20, 0.0, "R")
        for _ in range(int(seconds / (USAGE_TICKS * TICK_S))):
            now = ProcessUsage(1 << 20, before.cpu_s + self.share * USAGE_TICKS * TICK_S, "R")
            dog._lower_if_busy(before, now)
            before = now
        return os.getpriority(os.PRIO_PROCESS, self.pid)


@pytest.mark.parametrize(
    ("share", "seconds", "niceness"), [(1.0, 60, 15), (1.0, 55, 0), (0.85, 60, 15), (0.75, 300, 0)]
)
def test_who_computes_for_a_minute_gets_a_lower_priority_and_nobody_else(share, seconds, niceness):
    process = BusyProcess(share)
    try:
        before = os.getpriority(os.PRIO_PROCESS, process.pid)
        assert process.watched(seconds) == (niceness or before)
    finally:
        process.child.communicate(b"\n")


def test_new_starts_come_ever_later_until_one_stays_up():
    pauses, now = RestartPauses(), 1000.0
    told = []
    for _ in range(len(PAUSES) + 2):
        told.append(pauses.next(now))
        now += told[-1][0] + 1
    assert [pause for pause, _ in told] == [*PAUSES, PAUSES[-1], PAUSES[-1]]
    assert [again for _, again in told] == [False] + [True] * (len(PAUSES) + 1)
    assert pauses.next(now + STAYED_UP_S + 1) == (0.0, False)


@pytest.mark.parametrize(
    ("text", "seconds"), [("00:01.50", 1.5), ("2:03", 123.0), ("01:00:00", 3600.0), ("1-00:00:01", 86401.0)]
)
def test_the_time_that_ps_tells_is_understood(text, seconds):
    assert _seconds(text) == seconds
