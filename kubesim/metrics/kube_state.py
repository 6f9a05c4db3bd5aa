"""kube-state-metrics: what it says of each object, worked out from the object's versions when it is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kubesim import data
from kubesim.api import quantity
from kubesim.errors import Obj
from kubesim.metrics.exposition import Exposed, Family
from kubesim.metrics.promql.values import NAME
from kubesim.metrics.scrape import Function
from kubesim.metrics.timeline import Timeline
from kubesim.times import parse

_FILE = Path(__file__).with_name("kube_state.yaml")
PHASES = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
STATUSES = ("true", "false", "unknown")
UNITS = {"cpu": "core", "memory": "byte", "ephemeral-storage": "byte", "storage": "byte"}
Line = tuple[str, dict[str, str], float]
"""(metric, labels, value)"""


@dataclass(frozen=True, slots=True)
class Row:
    """A metric that is one value of an object."""

    name: str
    path: tuple[str, ...]
    form: str
    default: float | None


@dataclass(frozen=True, slots=True)
class Table:
    """What is said of every object of a kind."""

    prefix: str
    labels: Mapping[str, tuple[str, ...]]
    rows: tuple[Row, ...]


@cache
def tables() -> dict[str, Table]:
    """Return the tables by kind."""
    entries = data.read(_FILE)
    return {kind: _table(entry) for kind, entry in entries.items()}


def _table(entry: dict[str, Any]) -> Table:
    labels = {name: tuple(path.split(".")) for name, path in entry["labels"].items()}
    return Table(entry["prefix"], labels, tuple(_row(entry["prefix"], *row) for row in entry["metrics"]))


def _row(prefix: str, name: str, _type: str, path: str, default: float | None = None) -> Row:
    path, _, form = path.partition("|")
    return Row(f"{prefix}_{name}", tuple(path.split(".")), form, default)


def lines(kind: str, obj: Obj) -> Iterator[Line]:
    """Yield all that is said of an object."""
    table = tables().get(kind)
    if table is None:
        return
    labels = {name: str(_at(obj, path) or "") for name, path in table.labels.items()}
    for row in table.rows:
        value = _number(_at(obj, row.path), row)
        if value is not None:
            yield row.name, labels, value
    for more in _MORE.get(kind, ()):
        yield from more(obj, labels, table.prefix)


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def _number(value: Any, row: Row) -> float | None:
    if value is None:
        return row.default
    match row.form:
        case "time":
            return parse(value).timestamp()
        case "flag":
            return float(bool(value))
        case "count":
            return float(len(value))
    return float(value)


def resource(name: str) -> tuple[str, str]:
    """Return a resource's name and unit as labels: nvidia.com/gpu is (nvidia_com_gpu, integer)."""
    unit = "byte" if name.startswith("hugepages-") else UNITS.get(name, "integer")
    return re.sub(r"[^a-zA-Z0-9]", "_", name), unit


def _resources(metric: str, labels: dict[str, str], found: Mapping[str, Any] | None) -> Iterator[Line]:
    for name, amount in (found or {}).items():
        key, unit = resource(name)
        yield metric, {**labels, "resource": key, "unit": unit}, float(quantity.parse(str(amount)))


def _conditions(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    for item in obj.get("status", {}).get("conditions") or ():
        for status in STATUSES:
            holds = float(item["status"].lower() == status)
            yield f"{prefix}_status_condition", {**labels, "condition": item["type"], "status": status}, holds


def _phase(phases: tuple[str, ...]) -> Callable[[Obj, dict[str, str], str], Iterator[Line]]:
    def call(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
        now = obj.get("status", {}).get("phase")
        for phase in phases if now else ():
            yield f"{prefix}_status_phase", {**labels, "phase": phase}, float(phase == now)

    return call


def _owner(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    owners = obj["metadata"].get("ownerReferences") or [{}]
    for owner in owners:
        named = {"owner_kind": owner.get("kind", ""), "owner_name": owner.get("name", "")}
        is_controller = str(bool(owner["controller"])).lower() if "controller" in owner else ""
        yield f"{prefix}_owner", {**labels, **named, "owner_is_controller": is_controller}, 1.0


def _labels(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    named = {f"label_{re.sub('[^a-zA-Z0-9_]', '_', k)}": v for k, v in (obj["metadata"].get("labels") or {}).items()}
    yield f"{prefix}_labels", {**labels, **named}, 1.0


def _pod(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    spec, status = obj["spec"], obj.get("status", {})
    owner: Obj = next(iter(obj["metadata"].get("ownerReferences") or ()), {})
    yield (
        "kube_pod_info",
        {
            **labels,
            "host_ip": status.get("hostIP", ""),
            "pod_ip": status.get("podIP", ""),
            "node": spec.get("nodeName", ""),
            "created_by_kind": owner.get("kind", ""),
            "created_by_name": owner.get("name", ""),
            "priority_class": spec.get("priorityClassName", ""),
            "host_network": str(bool(spec.get("hostNetwork"))).lower(),
        },
        1.0,
    )
    conditions = {item["type"]: item for item in status.get("conditions") or ()}
    for kind, metric in (("Ready", "kube_pod_status_ready"), ("PodScheduled", "kube_pod_status_scheduled")):
        for word in STATUSES if kind in conditions else ():
            holds = float(conditions[kind]["status"].lower() == word)
            yield metric, {**labels, "condition": word}, holds
    if conditions.get("PodScheduled", {}).get("reason") == "Unschedulable":
        yield "kube_pod_status_unschedulable", labels, 1.0
    for reason in ("Evicted", "NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError"):
        yield "kube_pod_status_reason", {**labels, "reason": reason}, float(status.get("reason") == reason)


def _containers(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    node = obj["spec"].get("nodeName", "")
    for container in obj["spec"].get("containers") or ():
        named = {**labels, "container": container["name"], "node": node}
        resources = container.get("resources") or {}
        yield from _resources("kube_pod_container_resource_requests", named, resources.get("requests"))
        yield from _resources("kube_pod_container_resource_limits", named, resources.get("limits"))
    for found in obj.get("status", {}).get("containerStatuses") or ():
        yield from _container(found, {**labels, "container": found["name"]})


def _container(found: Obj, labels: dict[str, str]) -> Iterator[Line]:
    base = "kube_pod_container_status"
    state, last = found.get("state") or {}, found.get("lastState") or {}
    image = {"image": found.get("image", ""), "image_id": found.get("imageID", "")}
    yield "kube_pod_container_info", {**labels, **image, "container_id": found.get("containerID", "")}, 1.0
    yield f"{base}_ready", labels, float(found.get("ready", False))
    yield f"{base}_restarts_total", labels, float(found.get("restartCount", 0))
    for word in ("waiting", "running", "terminated"):
        yield f"{base}_{word}", labels, float(word in state)
    if reason := state.get("waiting", {}).get("reason"):
        yield f"{base}_waiting_reason", {**labels, "reason": reason}, 1.0
    if reason := state.get("terminated", {}).get("reason"):
        yield f"{base}_terminated_reason", {**labels, "reason": reason}, 1.0
    if ended := last.get("terminated"):
        yield f"{base}_last_terminated_reason", {**labels, "reason": ended.get("reason", "")}, 1.0
        yield f"{base}_last_terminated_exitcode", labels, float(ended.get("exitCode", 0))


def _node(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    status = obj.get("status", {})
    info = status.get("nodeInfo", {})
    names = {
        "kernel_version": "kernelVersion",
        "os_image": "osImage",
        "container_runtime_version": "containerRuntimeVersion",
        "kubelet_version": "kubeletVersion",
        "kubeproxy_version": "kubeProxyVersion",
        "system_uuid": "systemUUID",
    }
    address = next((a["address"] for a in status.get("addresses") or () if a["type"] == "InternalIP"), "")
    more = {"provider_id": obj["spec"].get("providerID", ""), "pod_cidr": obj["spec"].get("podCIDR", "")}
    described = {label: str(info.get(field, "")) for label, field in names.items()}
    yield "kube_node_info", {**labels, **described, **more, "internal_ip": address}, 1.0
    yield from _resources("kube_node_status_capacity", labels, status.get("capacity"))
    yield from _resources("kube_node_status_allocatable", labels, status.get("allocatable"))
    for taint in obj["spec"].get("taints") or ():
        named = {"key": taint["key"], "value": taint.get("value", ""), "effect": taint["effect"]}
        yield "kube_node_spec_taint", {**labels, **named}, 1.0
    for label in obj["metadata"].get("labels") or {}:
        if label.startswith("node-role.kubernetes.io/"):
            yield "kube_node_role", {**labels, "role": label.partition("/")[2]}, 1.0


def _job(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    for item in obj.get("status", {}).get("conditions") or ():
        metric = {"Complete": "kube_job_complete", "Failed": "kube_job_failed"}.get(item["type"])
        for word in STATUSES if metric else ():
            yield str(metric), {**labels, "condition": word}, float(item["status"].lower() == word)


def _quota(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    for kind in ("hard", "used"):
        for name, amount in (obj.get("status", {}).get(kind) or {}).items():
            value = float(quantity.parse(str(amount)))
            yield "kube_resourcequota", {**labels, "resource": name, "type": kind}, value


def _service(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    yield "kube_service_info", {**labels, "cluster_ip": obj["spec"].get("clusterIP", "")}, 1.0
    yield "kube_service_spec_type", {**labels, "type": obj["spec"].get("type", "ClusterIP")}, 1.0


_MORE: dict[str, tuple[Callable[[Obj, dict[str, str], str], Iterator[Line]], ...]] = {
    "Pod": (_pod, _phase(PHASES), _owner, _labels, _containers),
    "Node": (_node, _conditions, _labels),
    "Namespace": (_phase(("Active", "Terminating")),),
    "Deployment": (_conditions, _labels),
    "ReplicaSet": (_owner,),
    "Job": (_job, _owner),
    "PersistentVolumeClaim": (_phase(("Lost", "Bound", "Pending")),),
    "PersistentVolume": (_phase(("Pending", "Available", "Bound", "Released", "Failed")),),
    "HorizontalPodAutoscaler": (_conditions,),
    "ResourceQuota": (_quota,),
    "Service": (_service,),
}


class KubeState:
    """The versions of every object that metrics are made of."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str], Timeline[Obj | None]] = {}

    def observe(self, kind: str, obj: Obj, at: float, *, deleted: bool = False) -> None:
        """Take notice of a version of an object, or of its end."""
        if kind not in tables():
            return
        key = (kind, obj["metadata"]["uid"])
        version = None if deleted else obj
        if key not in self._objects:
            self._objects[key] = Timeline(at, version)
        else:
            self._objects[key].set(at, version)

    def forget(self, before: float) -> None:
        """Drop objects that were gone before a moment."""
        gone = [key for key, line in self._objects.items() if line.last is None and line.changed <= before]
        for key in gone:
            del self._objects[key]

    def series(self, name: str, start: float, end: float, kinds: Container[str] | None = None) -> Iterator[Function]:
        """Yield the series of one metric ("" for all), one for every set of labels that an object had in the span.

        ``kinds``: those that the exporter sees, by default all.
        """
        told = {kind for kind, table in tables().items() if name.startswith(table.prefix) or not name}
        told = told if kinds is None else {kind for kind in told if kind in kinds}
        for (kind, _), versions in self._objects.items() if told else ():
            if kind not in told:
                continue
            known: set[tuple[tuple[str, str], ...]] = set()
            for obj in versions.within(start, end):
                for labels in _said(kind, obj, name) if obj is not None else ():
                    if labels not in known:
                        known.add(labels)
                        yield Function(dict(labels), _value(kind, versions, labels))

    def exposed(self, kinds: Container[str] | None = None) -> Iterator[Exposed]:
        """Yield the lines of the exporter's page; ``kinds`` as above."""
        for (kind, _), versions in self._objects.items():
            if kinds is not None and kind not in kinds:
                continue
            for name, labels, value in lines(kind, versions.last) if versions.last is not None else ():
                yield Exposed(family(name), labels, value)


@cache
def family(name: str) -> Family:
    """Return what is told of a metric."""
    return Family(name, "counter" if name.endswith("_total") else "gauge", "Information from the state of objects.")


def _said(kind: str, obj: Obj, name: str) -> Iterator[tuple[tuple[str, str], ...]]:
    for metric, labels, _ in lines(kind, obj):
        if name in ("", metric):
            yield ((NAME, metric), *labels.items())


def _value(
    kind: str, versions: Timeline[Obj | None], labels: tuple[tuple[str, str], ...]
) -> Callable[[float], float | None]:
    name, wanted = labels[0][1], dict(labels[1:])

    def call(moment: float) -> float | None:
        obj = versions.at(moment)
        if obj is None:
            return None
        return next((value for metric, found, value in lines(kind, obj) if metric == name and found == wanted), None)

    return call
