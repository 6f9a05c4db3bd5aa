"""The two queries of a cluster's metrics, and their answers as readings of GPUs and pods.

An answer is somebody else's text: series that make no sense are left out, numbers are finite, names are bounded.
Names of metrics: NVIDIA/dcgm-exporter ``etc/default-counters.csv``, cAdvisor, kube-state-metrics
``docs/metrics/workload/pod-metrics.md``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from faults.plain_text import plain_line

MAX_SERIES = 10_000
MAX_NAME = 253
MAX_VALUE = 1e15
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_KEPT = "__name__, node, Hostname, gpu, GPU_I_ID, namespace, pod, exported_namespace, exported_pod"
GPU_QUERY = (
    f'max by ({_KEPT}) ({{__name__=~"DCGM_FI_DEV_(GPU_UTIL|FB_USED|FB_FREE|FB_RESERVED|GPU_TEMP|XID_ERRORS)"}})'
)
_RATE_OVER = "2m"  # two samples even where Prometheus scrapes once a minute
_POD_QUERY = (
    'label_replace(sum by (namespace, pod) (rate(container_cpu_usage_seconds_total{{container!="",'
    'namespace=~"{namespaces}"}}[{over}])), "reading", "cpu", "", "") or '
    'label_replace(sum by (namespace, pod) (kube_pod_container_status_restarts_total{{namespace=~"{namespaces}"}}),'
    ' "reading", "restarts", "", "")'
)
_FIELDS = {
    "DCGM_FI_DEV_GPU_UTIL": "util",
    "DCGM_FI_DEV_FB_USED": "used_mib",
    "DCGM_FI_DEV_FB_FREE": "free_mib",
    "DCGM_FI_DEV_FB_RESERVED": "reserved_mib",
    "DCGM_FI_DEV_GPU_TEMP": "temperature",
    "DCGM_FI_DEV_XID_ERRORS": "xid",
}
_SUMMED = ("used_mib", "free_mib", "reserved_mib")  # over the instances of a GPU that MIG divides


@dataclass(frozen=True, slots=True)
class GpuReading:
    """A GPU at one time: per cent, MiB, degrees Celsius and the last Xid (0: none); None where nothing was told."""

    node: str
    gpu: str
    util: float | None = None
    used_mib: float | None = None
    free_mib: float | None = None
    reserved_mib: float | None = None
    temperature: float | None = None
    xid: float | None = None
    pod: str = ""
    """Namespace and name of the pod that holds it."""

    @property
    def total_mib(self) -> float | None:
        """Return the size of its memory, with what the driver reserves."""
        if self.used_mib is None or self.free_mib is None:
            return None
        return self.used_mib + self.free_mib + (self.reserved_mib or 0.0)


@dataclass(frozen=True, slots=True)
class PodReading:
    """A pod at one time: GPUs in per cent (their mean) and MiB, CPU in cores, restarts; None: nothing was told."""

    pod: str
    util: float | None = None
    used_mib: float | None = None
    cpu: float | None = None
    restarts: float | None = None


@dataclass(frozen=True, slots=True)
class Readings:
    """A cluster at one time. ``gpus_at`` is when GPUs were told of last, ``no_gpus`` who knows of none now."""

    at: datetime
    gpus: tuple[GpuReading, ...] = ()
    pods: tuple[PodReading, ...] = ()
    gpus_at: datetime | None = None
    no_gpus: str = ""


def pod_query(namespaces: Collection[str]) -> str:
    """Return the query for the CPU and restarts of the pods in some namespaces."""
    names = sorted(name for name in namespaces if _NAMESPACE.fullmatch(name))  # nothing that needs escaping
    return _POD_QUERY.format(namespaces="|".join(names), over=_RATE_OVER)


def parse_gpus(result: Collection[Any]) -> tuple[GpuReading, ...]:
    """Return the GPUs of an answer to ``GPU_QUERY``, by node and number."""
    found: dict[tuple[str, str], GpuReading] = {}
    for labels, value in _samples(result):
        name = _FIELDS.get(labels.get("__name__", ""))
        node, gpu = labels.get("node") or labels.get("Hostname", ""), labels.get("gpu", "")
        if name is None or not node or not gpu:
            continue
        known = found.get((node, gpu), GpuReading(node, gpu))
        found[node, gpu] = _with(known, name, value, _pod_of(labels))
    return tuple(sorted(found.values(), key=lambda each: (each.node, len(each.gpu), each.gpu)))


def parse_pods(result: Collection[Any], gpus: Collection[GpuReading]) -> tuple[PodReading, ...]:
    """Return the pods of an answer to ``pod_query``, with what their GPUs do."""
    found: dict[str, PodReading] = {}
    for labels, value in _samples(result):
        name = _pod_of(labels)
        field = labels.get("reading")
        if name and field in ("cpu", "restarts"):
            found[name] = _pod_with(found.get(name, PodReading(name)), field, max(value, 0.0))
    for name in {gpu.pod for gpu in gpus if gpu.pod}:
        held = [gpu for gpu in gpus if gpu.pod == name]
        busy = [gpu.util for gpu in held if gpu.util is not None]
        used = [gpu.used_mib for gpu in held if gpu.used_mib is not None]
        reading = found.get(name, PodReading(name))
        mean = sum(busy) / len(busy) if busy else None
        found[name] = replace(reading, util=mean, used_mib=sum(used) if used else None)
    return tuple(sorted(found.values(), key=lambda each: each.pod))


def _with(known: GpuReading, name: str, value: float, pod: str) -> GpuReading:
    before = getattr(known, name)
    if before is not None:
        value = before + value if name in _SUMMED else max(before, value)
    numbers: dict[str, Any] = {name: value}
    return replace(known, pod=known.pod or pod, **numbers)


def _pod_with(known: PodReading, field: str, value: float) -> PodReading:
    numbers: dict[str, Any] = {field: value}
    return replace(known, **numbers)


def _pod_of(labels: dict[str, str]) -> str:
    """Return the pod that holds a GPU: Prometheus renames the exporter's labels where its own have the names."""
    exported = labels.get("exported_pod")
    namespace, pod = (
        (labels.get("exported_namespace", ""), exported)
        if exported
        else (labels.get("namespace", ""), labels.get("pod", ""))
    )
    return f"{namespace}/{pod}" if namespace and pod else ""


def _samples(result: Collection[Any]) -> Iterator[tuple[dict[str, str], float]]:
    """Yield labels and value of each series that has both."""
    for series in list(result)[:MAX_SERIES]:
        try:
            labels, value = series["metric"], float(series["value"][1])
            named = {str(key): plain_line(str(text), MAX_NAME) for key, text in labels.items()}
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            continue
        if math.isfinite(value) and abs(value) < MAX_VALUE:
            yield named, value
