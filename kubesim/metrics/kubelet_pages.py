"""Pages of a kubelet about its node beside cAdvisor's series: /metrics/resource and /metrics.

The formats are those that metrics-server and Prometheus read from a kubelet 1.34.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from kubesim import data
from kubesim.errors import Obj
from kubesim.kubelet.endpoint import KubeletEndpoint
from kubesim.kubelet.footprint import Process
from kubesim.kubelet.usage import SYSTEM_CPU
from kubesim.metrics.exposition import Exposed, Family, render

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
