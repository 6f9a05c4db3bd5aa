"""cAdvisor's series of a node: what its containers and pods use, as functions of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kubesim.api.quantity import parse
from kubesim.errors import Obj
from kubesim.kubelet.footprint import Process
from kubesim.metrics.exposition import Exposed, Family, render
from kubesim.metrics.promql.values import NAME
from kubesim.metrics.scrape import Function, constant
from kubesim.network.fabric import Server

PATH = "/metrics/cadvisor"
PERIOD_US = 100_000
"""The CFS period that quotas are shares of, in microseconds."""
Measure = Callable[[Process, float], float]
"""A process and the seconds since its start -> the value."""
CONTAINERS: dict[str, tuple[str, Measure]] = {
    "container_cpu_usage_seconds_total": ("Cumulative cpu time consumed", lambda p, s: p.usage.cpu_seconds(s)),
    "container_memory_working_set_bytes": ("Current working set in bytes.", lambda p, s: p.usage.memory(s)),
    "container_memory_rss": ("Size of RSS in bytes.", lambda p, s: p.usage.memory(s) * 0.92),
    "container_spec_memory_limit_bytes": ("Memory limit for the container.", lambda p, s: p.usage.memory_limit),
}  # fmt: skip
LIMITED: dict[str, tuple[str, Measure]] = {
    "container_spec_cpu_quota": ("CPU quota of the container.", lambda p, s: p.usage.cpu_limit * PERIOD_US),
}
PODS: dict[str, tuple[str, Measure]] = {
    "container_network_receive_bytes_total": ("Cumulative count of bytes received", lambda p, s: p.usage.received(s)),
    "container_network_transmit_bytes_total": ("Cumulative count of bytes transmitted", lambda p, s: p.usage.sent(s)),
}
MACHINE = {"machine_cpu_cores": ("Number of logical CPU cores.", "cpu"),
           "machine_memory_bytes": ("Amount of memory installed on the machine.", "memory")}  # fmt: skip

NAMES = frozenset((*CONTAINERS, *LIMITED, *PODS, *MACHINE))


def series(server: Server, name: str, start: float, end: float) -> Iterator[Function]:
    """Yield the series of one metric ("" for all) of the node whose kubelet ``server`` is."""
    if name and name not in NAMES:
        return
    told: Any = server
    for metric, (_, resource) in MACHINE.items():
        capacity = told.capacity.get(resource)
        if name in ("", metric) and capacity is not None:
            yield Function({NAME: metric}, constant(float(parse(str(capacity)))))
    for process in told.processes():
        if process.started <= end and (process.ended is None or process.ended >= start):
            for metric, measure, labels in _measures(process):
                if name in ("", metric):
                    yield Function({NAME: metric, **labels}, _at(process, measure))


def page(server: Server, at: float) -> str:
    """Return the page at a moment."""
    return render(exposed(server, at))


def exposed(server: Server, at: float) -> Iterator[Exposed]:
    """Yield the lines of the page."""
    texts = {metric: text for table in (CONTAINERS, LIMITED, PODS, MACHINE) for metric, (text, _) in table.items()}
    for function in series(server, "", at, at):
        value, metric = function.value(at), function.labels[NAME]
        if value is not None:
            yield Exposed(Family(metric, kind(metric), texts[metric]), function.labels, value)


def kind(metric: str) -> str:
    """Return the type of a metric."""
    return "counter" if metric.endswith("_total") else "gauge"


def _measures(process: Process) -> Iterator[tuple[str, Measure, dict[str, str]]]:
    meta, limited = process.pod["metadata"], bool(process.usage.cpu_limit)
    pod = {"namespace": meta["namespace"], "pod": meta["name"]}
    image = {"container": process.container, "image": _image(process.pod, process.container)}
    for metric, (_, measure) in (CONTAINERS | (LIMITED if limited else {})).items():
        yield metric, measure, image | pod
    if process.container == process.pod["spec"]["containers"][0]["name"]:
        for metric, (_, measure) in PODS.items():
            yield metric, measure, {"interface": "eth0", **pod}


def _image(pod: Obj, name: str) -> str:
    containers = (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ()))
    return next((str(item["image"]) for item in containers if item["name"] == name), "")


def _at(process: Process, measure: Measure) -> Callable[[float], float | None]:
    def call(moment: float) -> float | None:
        elapsed = process.elapsed(moment)
        return None if elapsed is None else measure(process, elapsed)

    return call
