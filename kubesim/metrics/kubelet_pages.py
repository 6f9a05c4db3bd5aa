"""Pages of a kubelet about its node beside cAdvisor's series: /metrics/resource, /metrics and /stats/summary.

The formats are those that metrics-server and Prometheus read from a kubelet 1.34.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache

import orjson

from kubesim import data
from kubesim.api.quantity import parse
from kubesim.errors import Obj
from kubesim.kubelet.endpoint import KubeletEndpoint
from kubesim.kubelet.eviction import Pressure
from kubesim.kubelet.footprint import ContainerUse, Process, measure
from kubesim.kubelet.layers import Space
from kubesim.kubelet.usage import SYSTEM_CPU
from kubesim.metrics.exposition import Exposed, Family, render
from kubesim.shell.share import Disk
from kubesim.times import stamp

RSS = 0.92
"""The share of a working set that is resident."""
VERSION = {"git_version": "v1.34.4", "major": "1", "minor": "34", "platform": "linux/amd64"}
Line = tuple[str, dict[str, str], float]
"""(metric, labels, value)"""
_help: data.Reader[dict[str, str]] = data.beside(__file__, "kubelet_pages.yaml")


@dataclass
class Used:
    """Use of resources: cores, the core-seconds since its start, and bytes."""

    cores: float = 0.0
    core_seconds: float = 0.0
    memory: float = 0.0

    def add(self, other: Used) -> None:
        """Count something in."""
        self.cores += other.cores
        self.core_seconds += other.core_seconds
        self.memory += other.memory


@dataclass
class PodUse:
    """A pod that runs, and what each of its containers uses since when."""

    pod: Obj
    total: Used = field(default_factory=Used)
    containers: list[tuple[Process, Used]] = field(default_factory=list)


def resource_page(kubelet: KubeletEndpoint, now: float) -> bytes:
    """Return /metrics/resource."""
    node, pods = measured(kubelet, now)
    return _page(sorted([*_resources(node, pods), ("resource_scrape_error", {}, 0.0)], key=lambda line: line[0]))


def own_page(kubelet: KubeletEndpoint, now: float) -> bytes:
    """Return /metrics: what the kubelet says of itself."""
    running = [process for process in kubelet.processes() if process.elapsed(now) is not None]
    pods = {process.pod["metadata"]["uid"] for process in running}
    ended = sum(1 for process in kubelet.processes() if process.ended is not None)
    values: list[Line] = [
        ("kubelet_node_name", {"node": kubelet.node}, 1),
        ("kubelet_running_containers", {"container_state": "exited"}, ended),
        ("kubelet_running_containers", {"container_state": "running"}, len(running)),
        ("kubelet_running_pods", {}, len(pods)),
        ("kubernetes_build_info", VERSION, 1),
        ("process_start_time_seconds", {}, kubelet.started),
    ]
    return _page(values)


def summary(kubelet: KubeletEndpoint, now: float) -> bytes:
    """Return /stats/summary."""
    node, pods = measured(kubelet, now)
    capacity = float(parse(kubelet.capacity.get("memory", "0")))
    own = {"nodeName": kubelet.node, "startTime": _stamp(kubelet.started), **_stats(node, now, capacity)}
    told = [_pod_stats(found, now) for found in pods]
    if isinstance(watch := kubelet.watch, Pressure):
        at = _stamp(now)
        own |= node_stats(watch, now, at)
        told = [pod_stats(watch, found.pod, each, now, at) for found, each in zip(pods, told, strict=True)]
    return orjson.dumps({"node": own, "pods": told}, option=orjson.OPT_INDENT_2)


def measured(kubelet: KubeletEndpoint, now: float) -> tuple[Used, list[PodUse]]:
    """Return what a node and its pods use now."""
    node = Used(SYSTEM_CPU, kubelet.ledger.now(now).busy_s, float(kubelet.ledger.own))
    pods: dict[str, PodUse] = {}
    for process in kubelet.processes():
        elapsed = process.elapsed(now)
        if elapsed is None:
            continue
        usage = process.usage
        used = Used(usage.cpu(elapsed), usage.cpu_seconds(elapsed), usage.memory(elapsed))
        found = pods.setdefault(process.pod["metadata"]["uid"], PodUse(process.pod))
        found.containers.append((process, used))
        found.total.add(used)
        node.add(Used(used.cores, 0.0, used.memory))
    return node, [*pods.values()]


def _resources(node: Used, pods: list[PodUse]) -> Iterator[Line]:
    yield "node_cpu_usage_seconds_total", {}, node.core_seconds
    yield "node_memory_working_set_bytes", {}, node.memory
    for found in pods:
        meta = found.pod["metadata"]
        where = {"namespace": meta["namespace"], "pod": meta["name"]}
        yield "pod_cpu_usage_seconds_total", where, found.total.core_seconds
        yield "pod_memory_working_set_bytes", where, found.total.memory
        for process, used in found.containers:
            labels = {"container": process.container, **where}
            yield "container_cpu_usage_seconds_total", labels, used.core_seconds
            yield "container_memory_working_set_bytes", labels, used.memory
            yield "container_start_time_seconds", labels, process.started


def _page(lines: Iterable[Line]) -> bytes:
    return render(Exposed(_family(name), labels, value) for name, labels, value in lines).encode()


@cache
def _family(name: str) -> Family:
    return Family(name, "counter" if name.endswith("_total") else "gauge", _help()[name])


def _pod_stats(found: PodUse, now: float) -> Obj:
    meta = found.pod["metadata"]
    started = min(process.started for process, _ in found.containers)
    containers = [
        {"name": process.container, "startTime": _stamp(process.started), **_stats(used, now)}
        for process, used in found.containers
    ]
    reference = {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}
    return {
        "podRef": reference,
        "startTime": _stamp(started),
        "containers": containers,
        **_stats(found.total, now),
    }


def _stats(used: Used, now: float, capacity: float = 0.0) -> Obj:
    at, memory = _stamp(now), int(used.memory)
    available = {"availableBytes": int(max(capacity - used.memory, 0))} if capacity else {}
    return {
        "cpu": {
            "time": at,
            "usageNanoCores": int(used.cores * 1e9),
            "usageCoreNanoSeconds": int(used.core_seconds * 1e9),
        },
        "memory": {
            "time": at,
            **available,
            "usageBytes": memory,
            "workingSetBytes": memory,
            "rssBytes": int(memory * RSS),
        },
    }


def _stamp(at: float) -> str:
    return stamp(datetime.fromtimestamp(at, UTC))


def node_stats(watch: Pressure, at: float, stamp: str) -> Obj:
    """Return the node's file system, that of its images and containers, its process numbers and its pods' memory."""
    uses = [measure(worker, at) for worker in watch.workers() if not worker.gone]
    seen = watch.observe(uses)
    room, pids, pods = watch.node.disk.room, seen["pid.available"], seen["allocatableMemory.available"]
    disk = _whole(room, stamp)
    images, used = Space(watch.images.total, 0), Space(room.used, room.entries)
    memory = {"time": stamp, "availableBytes": pods.available, "workingSetBytes": pods.capacity - pods.available}
    memory |= {"usageBytes": pods.capacity - pods.available, "rssBytes": pods.capacity - pods.available}
    return {
        "fs": _fs(used, disk, room.limit),
        "runtime": {
            "imageFs": _fs(images, disk, room.limit, used),
            "containerFs": _fs(images, disk, room.limit, used),
        },
        "rlimit": {"time": stamp, "maxpid": pids.capacity, "curproc": pids.capacity - pids.available},
        "systemContainers": [{"name": "pods", "startTime": stamp, "memory": memory}],
    }


def _whole(room: Disk, stamp: str) -> Obj:
    return {"time": stamp, "capacityBytes": room.limit, "inodes": room.inodes}


def _fs(own: Space, disk: Obj, limit: int, whole: Space | None = None) -> Obj:
    """Return one file system's numbers: what is its ``own``, of a disk of which so much is used as a ``whole``."""
    whole = whole or own
    found = disk | {"availableBytes": max(limit - whole.bytes, 0), "usedBytes": own.bytes}
    return found | {"inodesFree": max(disk["inodes"] - whole.inodes, 0), "inodesUsed": own.inodes}


def pod_stats(watch: Pressure, pod: Obj, stats: Obj, at: float, stamp: str) -> Obj:
    """Return a pod's entry with what it takes of the disk: by container, by volume, and as a whole."""
    worker = next((each for each in watch.workers() if each.record.uid == pod["metadata"]["uid"]), None)
    if worker is None:
        return stats
    use, room = measure(worker, at), watch.node.disk.room
    disk = _whole(room, stamp)

    def fs(own: Space) -> Obj:
        return _fs(own, disk, room.limit, Space(room.used, room.entries))

    by_name = {each.name: each for each in use.containers}
    containers = [_with_files(each, by_name.get(each["name"]), fs) for each in stats["containers"]]
    volumes = [{**fs(own), "name": name} for name, own in use.volumes.items()]
    more: Obj = {"ephemeral-storage": fs(use.disk), "process_stats": {"process_count": use.processes}}
    return {**stats, "containers": containers, **({"volume": volumes} if volumes else {}), **more}


def _with_files(stats: Obj, use: ContainerUse | None, fs: Callable[[Space], Obj]) -> Obj:
    return stats if use is None else {**stats, "rootfs": fs(use.root), "logs": fs(use.logs)}
