"""kube-state-metrics: what it says of each object, worked out from the object's versions when it is asked for."""

from __future__ import annotations

import math
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
from kubesim.shares import share
from kubesim.times import parse

_FILE = Path(__file__).with_name("kube_state.yaml")
_HELP = Path(__file__).with_name("kube_state_help.yaml")
PHASES = ("Pending", "Succeeded", "Failed", "Unknown", "Running")
STATUSES = ("true", "false", "unknown")
QOS = ("BestEffort", "Burstable", "Guaranteed")
POD_REASONS = ("Evicted", "NodeAffinity", "NodeLost", "Shutdown", "UnexpectedAdmissionError")
JOB_REASONS = ("BackoffLimitExceeded", "DeadlineExceeded", "Evicted")
DEPLOYMENT_REASONS = {
    "",
    "ReplicaSetUpdated",
    "ReplicaSetCreateError",
    "NewReplicaSetCreated",
    "FoundNewReplicaSet",
    "NewReplicaSetAvailable",
    "ProgressDeadlineExceeded",
    "DeploymentPaused",
    "DeploymentResumed",
    "MinimumReplicasAvailable",
    "MinimumReplicasUnavailable",
}
"""Other reasons of conditions are told as unknown."""
POD_TIMES = {
    ("Initialized", "True"): "initialized_time",
    ("ContainersReady", "True"): "container_ready_time",
    ("Ready", "True"): "ready_time",
    ("PodScheduled", "True"): "scheduled_time",
    ("PodScheduled", "False"): "unscheduled_time",
}
ROUNDED = (("max_unavailable", "maxUnavailable", math.floor), ("max_surge", "maxSurge", math.ceil))
CONTAINER = "kube_pod_container"
CONTAINERS = (
    (CONTAINER, "containers", "containerStatuses"),
    ("kube_pod_init_container", "initContainers", "initContainerStatuses"),
)
"""(metrics' first words, field of the spec, field of the status)"""
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
    series: Mapping[str, Mapping[str, tuple[str, ...]]]


@cache
def tables() -> dict[str, Table]:
    """Return the tables by kind."""
    entries = data.read(_FILE)
    return {kind: _table(entry) for kind, entry in entries.items()}


def _table(entry: dict[str, Any]) -> Table:
    prefix = entry["prefix"]
    series = {f"{prefix}_{name}": _paths(labels) for name, labels in entry.get("series", {}).items()}
    return Table(prefix, _paths(entry["labels"]), tuple(_row(prefix, *row) for row in entry["metrics"]), series)


def _paths(labels: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(path.split(".")) for name, path in labels.items()}


def _row(prefix: str, name: str, _type: str, path: str, default: float | None = None) -> Row:
    path, _, form = path.partition("|")
    return Row(f"{prefix}_{name}", tuple(path.split(".")), form, default)


def lines(kind: str, obj: Obj) -> Iterator[Line]:
    """Yield all that is said of an object."""
    table = tables().get(kind)
    if table is None:
        return
    labels = _told(obj, table.labels)
    for row in table.rows:
        value = _number(_at(obj, row.path), row)
        if value is not None:
            yield row.name, labels, value
    for name, paths in table.series.items():
        if any((told := _told(obj, paths)).values()):
            yield name, {**labels, **told}, 1.0
    for more in _MORE.get(kind, ()):
        yield from more(obj, labels, table.prefix)


def _told(obj: Obj, paths: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    return {name: str(_at(obj, path) or "") for name, path in paths.items()}


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
        case "quantity":
            return float(quantity.parse(str(value)))
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


def _deployment(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    for item in obj.get("status", {}).get("conditions") or ():
        reason = item.get("reason", "")
        told = {**labels, "reason": reason if reason in DEPLOYMENT_REASONS else "unknown"}
        yield from _conditions({"status": {"conditions": [item]}}, told, prefix)
    strategy = obj["spec"].get("strategy", {}).get("rollingUpdate") or {}
    for name, field, rounded in ROUNDED:
        if field in strategy:
            count = share(strategy[field], obj["spec"].get("replicas", 1), rounded)
            yield f"{prefix}_spec_strategy_rollingupdate_{name}", labels, float(count)


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
        is_controller = str(bool(owner.get("controller"))).lower() if owner else ""
        yield f"{prefix}_owner", {**labels, **named, "owner_is_controller": is_controller}, 1.0


def _snake(name: str) -> str:
    return re.sub("([a-z0-9])([A-Z])", r"\1_\2", re.sub("[^a-zA-Z0-9_]", "_", name)).lower()


def _labels(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    named = {f"label_{_snake(k)}": v for k, v in (obj["metadata"].get("labels") or {}).items()}
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
    yield from _pod_status(status, labels)


def _pod_status(status: Obj, labels: dict[str, str]) -> Iterator[Line]:
    conditions = {item["type"]: item for item in status.get("conditions") or ()}
    for kind, metric in (("Ready", "ready"), ("PodScheduled", "scheduled")):
        for word in STATUSES if kind in conditions else ():
            holds = float(conditions[kind]["status"].lower() == word)
            yield f"kube_pod_status_{metric}", {**labels, "condition": word}, holds
    for (kind, wanted), metric in POD_TIMES.items():
        if (found := conditions.get(kind, {})).get("status") == wanted and "lastTransitionTime" in found:
            yield f"kube_pod_status_{metric}", labels, parse(found["lastTransitionTime"]).timestamp()
    if conditions.get("PodScheduled", {}).get("status") == "False":
        yield "kube_pod_status_unschedulable", labels, 1.0
    ended = [found.get("state", {}).get("terminated") or {} for found in status.get("containerStatuses") or ()]
    reasons = {found.get("reason") for found in (status, *conditions.values(), *ended)}
    for reason in POD_REASONS:
        yield "kube_pod_status_reason", {**labels, "reason": reason}, float(reason in reasons)
    for word in QOS if status.get("qosClass") else ():
        yield "kube_pod_status_qos_class", {**labels, "qos_class": word}, float(status["qosClass"] == word)
    if finished := [parse(found["finishedAt"]).timestamp() for found in ended if found.get("finishedAt")]:
        yield "kube_pod_completion_time", labels, max(finished)


def _claims(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    for volume in obj["spec"].get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            named = {**labels, "volume": volume["name"], "persistentvolumeclaim": claim["claimName"]}
            yield "kube_pod_spec_volumes_persistentvolumeclaims_info", named, 1.0
            read_only = float(bool(claim.get("readOnly")))
            yield "kube_pod_spec_volumes_persistentvolumeclaims_readonly", named, read_only


def _containers(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    node, status = obj["spec"].get("nodeName", ""), obj.get("status", {})
    for base, field, statuses in CONTAINERS:
        images = {}
        for container in obj["spec"].get(field) or ():
            images[container["name"]] = container.get("image", "")
            named = {**labels, "container": container["name"], "node": node}
            resources = container.get("resources") or {}
            yield from _resources(f"{base}_resource_requests", named, resources.get("requests"))
            yield from _resources(f"{base}_resource_limits", named, resources.get("limits"))
        for found in status.get(statuses) or ():
            yield from _container(found, {**labels, "container": found["name"]}, base, images.get(found["name"], ""))


def _container(found: Obj, labels: dict[str, str], base: str, spec: str) -> Iterator[Line]:
    state, last = found.get("state") or {}, found.get("lastState") or {}
    image = {"image_spec": spec, "image": found.get("image", ""), "image_id": found.get("imageID", "")}
    yield f"{base}_info", {**labels, **image, "container_id": found.get("containerID", "")}, 1.0
    yield f"{base}_status_ready", labels, float(found.get("ready", False))
    yield f"{base}_status_restarts_total", labels, float(found.get("restartCount", 0))
    for word in ("waiting", "running", "terminated"):
        yield f"{base}_status_{word}", labels, float(word in state)
    for word in ("waiting", "terminated"):
        if reason := state.get(word, {}).get("reason"):
            yield f"{base}_status_{word}_reason", {**labels, "reason": reason}, 1.0
    ended = last.get("terminated")
    if ended:
        yield f"{base}_status_last_terminated_reason", {**labels, "reason": ended.get("reason", "")}, 1.0
    if base == CONTAINER:
        yield from _times(state, ended or {}, labels)


def _times(state: Obj, ended: Obj, labels: dict[str, str]) -> Iterator[Line]:
    """Yield what is told of containers alone, not of those that come first."""
    for word in ("running", "terminated"):
        if started := state.get(word, {}).get("startedAt"):
            yield f"{CONTAINER}_state_started", labels, parse(started).timestamp()
    if ended:
        yield f"{CONTAINER}_status_last_terminated_exitcode", labels, float(ended.get("exitCode", 0))
    if finished := ended.get("finishedAt"):
        yield f"{CONTAINER}_status_last_terminated_timestamp", labels, parse(finished).timestamp()


def _node(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    status = obj.get("status", {})
    info = status.get("nodeInfo", {})
    names = {
        "kernel_version": "kernelVersion",
        "os_image": "osImage",
        "container_runtime_version": "containerRuntimeVersion",
        "kubelet_version": "kubeletVersion",
        "system_uuid": "systemUUID",
    }
    address = next((a["address"] for a in status.get("addresses") or () if a["type"] == "InternalIP"), "")
    more = {"provider_id": obj["spec"].get("providerID", ""), "pod_cidr": obj["spec"].get("podCIDR", "")}
    described = {label: str(info.get(field, "")) for label, field in names.items()} | {
        "kubeproxy_version": "deprecated"
    }
    yield "kube_node_info", {**labels, **described, **more, "internal_ip": address}, 1.0
    for found in status.get("addresses") or ():
        yield "kube_node_status_addresses", {**labels, "type": found["type"], "address": found["address"]}, 1.0
    yield from _resources("kube_node_status_capacity", labels, status.get("capacity"))
    yield from _resources("kube_node_status_allocatable", labels, status.get("allocatable"))
    for taint in obj["spec"].get("taints") or ():
        named = {"key": taint["key"], "value": taint.get("value", ""), "effect": taint["effect"]}
        yield "kube_node_spec_taint", {**labels, **named}, 1.0
    for label in obj["metadata"].get("labels") or {}:
        if label.startswith("node-role.kubernetes.io/"):
            yield "kube_node_role", {**labels, "role": label.partition("/")[2]}, 1.0


def _job(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    yield from _failures(obj.get("status", {}), labels)
    for item in obj.get("status", {}).get("conditions") or ():
        if item["type"] == "Suspended":
            yield "kube_job_status_suspended", labels, float(item["status"] == "True")
        metric = {"Complete": "kube_job_complete", "Failed": "kube_job_failed"}.get(item["type"])
        for word in STATUSES if metric else ():
            yield str(metric), {**labels, "condition": word}, float(item["status"].lower() == word)


def _failures(status: Obj, labels: dict[str, str]) -> Iterator[Line]:
    failed, metric = float(status.get("failed", 0)), "kube_job_status_failed"
    if not failed:
        yield metric, labels, 0.0
        return
    why = [item.get("reason") for item in status.get("conditions") or () if item["type"] == "Failed"]
    for reason in JOB_REASONS if why else ():
        yield metric, {**labels, "reason": reason}, float(reason in why)
    if not any(reason in JOB_REASONS for reason in why):
        yield metric, {**labels, "reason": ""}, failed


def _quota(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    for kind in ("hard", "used"):
        for name, amount in (obj.get("status", {}).get(kind) or {}).items():
            value = float(quantity.parse(str(amount)))
            yield "kube_resourcequota", {**labels, "resource": name, "type": kind}, value


def _modes(obj: Obj, labels: dict[str, str], prefix: str) -> Iterator[Line]:
    for mode in obj["spec"].get("accessModes") or ():
        yield f"{prefix}_access_mode", {**labels, "access_mode": mode}, 1.0


_MORE: dict[str, tuple[Callable[[Obj, dict[str, str], str], Iterator[Line]], ...]] = {
    "Pod": (_pod, _phase(PHASES), _owner, _labels, _containers, _claims),
    "Node": (_node, _conditions, _labels),
    "Namespace": (_phase(("Active", "Terminating")), _conditions),
    "Deployment": (_deployment, _labels),
    "ReplicaSet": (_owner,),
    "Job": (_job, _owner),
    "PersistentVolumeClaim": (_phase(("Lost", "Bound", "Pending")), _conditions, _modes),
    "PersistentVolume": (_phase(("Pending", "Available", "Bound", "Released", "Failed")),),
    "HorizontalPodAutoscaler": (_conditions,),
    "ResourceQuota": (_quota,),
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
    """Return what is told of a metric, in the words of version 2.17."""
    return Family(name, "counter" if name.endswith("_total") else "gauge", data.read(_HELP).get(name, ""))


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
