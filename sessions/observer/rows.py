"""From Kubernetes objects to the rows that panels show, in kubectl's words."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from faults.metrics import GpuReading, Readings
from faults.plain_text import plain_line
from faults.toolbox_nodes import is_set_aside
from sessions.kinds import DEPLOYMENT, EVENT, JOB, NODE, POD, Kind
from sessions.live import EventRow, LiveState, NodeRow, PodRow, WorkloadRow
from sessions.observer.cache import Cache, Obj

GPU = "nvidia.com/gpu"
LONGEST_NAME, LONGEST_WORD, LONGEST_MESSAGE = 253, 80, 1024  # a cell of a table; the API bounds names and events so
MAX_GPUS = 16  # of a node; no machine has more
_UNIT = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{0,18})?")
_NOT_BROKEN = {"Running", "Completed", "Succeeded", "ContainerCreating", "PodInitializing", "Terminating"}
_STARTING = {"Pending", "ContainerCreating", "PodInitializing", "Terminating", "Completed", "Succeeded"}
_OLDEST = datetime.min.replace(tzinfo=UTC)
SETTLED_AFTER = timedelta(seconds=60)  # a container that crashed counts as repaired once it has run for so long
READY_WITHIN = timedelta(seconds=30)  # for a container that has not crashed


def live_state(
    cache: Cache,
    namespaces: Collection[str],
    is_target: Callable[[Obj], bool],
    names: Collection[str],
    metrics: Readings | None = None,
) -> LiveState:
    """Return what some panels of one session show: its namespaces, and all nodes.

    ``is_target`` tells whether a scenario's symptom is about a pod. Rows that none of the panels shows stay empty.
    """

    def ours(kind: Kind) -> list[Obj]:
        return [obj for obj in cache.objects(kind) if _namespace(obj) in namespaces]

    def shown(kind: Kind) -> list[Obj]:
        return [obj for obj in cache.objects(kind) if _namespace(obj) in ("", *namespaces)]

    found = LiveState(synced_at=cache.heard_at, stale_since=cache.stale_since, objects=shown)
    if "pods" in names:
        rows = (pod_row(pod, is_target(pod), found.synced_at) for pod in ours(POD))
        found.pods = sorted(rows, key=broken_first)
    if "events" in names:
        rows_of_events = [row for _, row in cache.derived(EVENT, event_row) if row.namespace in namespaces]
        found.events = sorted(rows_of_events, key=lambda row: row.at or _OLDEST, reverse=True)
    if "nodes" in names:
        rows_of_nodes = node_rows(cache.objects(NODE), cache.objects(POD), metrics.gpus if metrics else ())
        found.nodes = sorted(rows_of_nodes, key=unusable_first)
        found.metrics_at = metrics.at if metrics else None
        found.gpus_at, found.no_gpus = (metrics.gpus_at, metrics.no_gpus) if metrics else (None, "")
    if "workloads" in names:
        workloads = map(workload_row, ours(JOB) + ours(DEPLOYMENT))
        found.workloads = sorted(workloads, key=lambda row: (row.namespace, row.name))
    return found


def broken_first(row: PodRow) -> tuple[bool, str, str]:
    """Return the key by which pods are sorted: what needs a look is at the top, each group by name."""
    return not row.broken, row.namespace, row.name


def pod_row(pod: Obj, is_target: bool, at: datetime | None = None) -> PodRow:
    """Return a pod as ``kubectl get pods`` shows it; ``at`` is when the cluster was last heard."""
    status, spec = pod.get("status", {}), pod.get("spec", {})
    states = status.get("containerStatuses") or []
    word = pod_status(pod)
    ready = sum(bool(state.get("ready")) for state in states)
    return PodRow(
        namespace=_namespace(pod),
        name=pod["metadata"]["name"],
        ready=f"{ready}/{len(spec.get('containers') or [])}",
        status=plain_line(word, LONGEST_WORD),
        restarts=sum(int(state.get("restartCount", 0)) for state in states),
        node=plain_line(spec.get("nodeName", ""), LONGEST_NAME),
        created_at=_time(pod["metadata"].get("creationTimestamp")),
        message=plain_line(_message(pod), LONGEST_MESSAGE),
        gpus=_gpus(pod),
        intended=is_target and word not in _NOT_BROKEN,
        broken=is_broken(pod, word, at),
    )


def is_broken(pod: Obj, word: str, at: datetime | None = None) -> bool:
    """Whether a pod needs a look, at the time ``at``.

    A crashing container runs for a moment between two crashes. Its pod counts as broken until it has settled, so
    that its row does not jump up and down while somebody reads it.
    """
    if word == "Pending":
        return _condition(pod, "PodScheduled", "False")
    if word in _STARTING or word.startswith("Init:") and "/" in word:
        return False
    if word != "Running":
        return True
    return any(_is_unsettled(state, at) for state in pod.get("status", {}).get("containerStatuses") or [])


def _is_unsettled(state: Obj, at: datetime | None) -> bool:
    since = _time((state.get("state", {}).get("running") or {}).get("startedAt"))
    if since is None or at is None:
        return False
    if state.get("restartCount"):
        return at - since < SETTLED_AFTER or not state.get("ready")
    return not state.get("ready") and at - since > READY_WITHIN


def pod_status(pod: Obj) -> str:
    """Return the word in kubectl's STATUS column."""
    status = pod.get("status", {})
    word = status.get("reason") or status.get("phase") or "Unknown"
    initialising = _init_word(pod)
    if initialising:
        word = initialising
    else:
        word = _container_word(status.get("containerStatuses") or [], word)
    if word == "Completed" and any("running" in s.get("state", {}) for s in status.get("containerStatuses") or []):
        word = "Running" if _condition(pod, "Ready") else "NotReady"
    if pod["metadata"].get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return str(word)


def event_row(event: Obj) -> EventRow:
    """Return an event with the time at which it was last seen."""
    about = event.get("involvedObject") or {}
    series = event.get("series") or {}
    at = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return EventRow(
        at=_time(at or event["metadata"].get("creationTimestamp")),
        type=plain_line(event.get("type") or "Normal", LONGEST_WORD),
        reason=plain_line(event.get("reason") or "", LONGEST_WORD),
        object=plain_line(f"{about.get('kind', '?')}/{about.get('name', '?')}", LONGEST_NAME),
        message=plain_line(event.get("message") or "", LONGEST_MESSAGE),
        count=int(series.get("count") or event.get("count") or 1),
        namespace=_namespace(event),
        name=event["metadata"].get("name", ""),
    )


def node_rows(nodes: Iterable[Obj], pods: Iterable[Obj], gpus: Iterable[GpuReading] = ()) -> list[NodeRow]:
    """Return the nodes with how many of their GPUs are held by pods that have not ended, and what the GPUs do."""
    used: dict[str, int] = {}
    for pod in pods:
        name = pod.get("spec", {}).get("nodeName", "")
        if name and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            used[name] = used.get(name, 0) + _gpus(pod)
    readings: dict[str, list[GpuReading]] = {}
    for gpu in gpus:
        readings.setdefault(gpu.node, []).append(gpu)
    names = [(node, node["metadata"]["name"]) for node in nodes]
    return [_node_row(node, used.get(name, 0), readings.get(name, ())) for node, name in names]


def unusable_first(row: NodeRow) -> tuple[bool, bool, str]:
    """Return the key by which nodes are sorted: what needs a look, then those with GPUs that count, by name."""
    return row.ready and row.schedulable, not row.gpus or row.for_toolbox, row.name


def workload_row(obj: Obj) -> WorkloadRow:
    """Return a job with its completions, or a deployment with its available replicas."""
    spec, status = obj.get("spec", {}), obj.get("status", {})
    if obj.get("kind") == "Job":
        summary = f"{status.get('succeeded', 0)}/{spec.get('completions', 1)} completions"
    else:
        summary = f"{status.get('availableReplicas', 0)}/{spec.get('replicas', 1)} available"
    created = _time(obj["metadata"].get("creationTimestamp"))
    return WorkloadRow(_namespace(obj), obj.get("kind", ""), obj["metadata"]["name"], summary, created)


def _init_word(pod: Obj) -> str:
    """Return kubectl's ``Init:...`` word while an init container has not done its work; else empty."""
    states = pod.get("status", {}).get("initContainerStatuses") or []
    for index, entry in enumerate(states):
        state = entry.get("state", {})
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and ended.get("exitCode") == 0 or entry.get("started") and "running" in state:
            continue
        if ended is not None:
            return f"Init:{_ended_word(ended)}"
        if waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(pod.get('spec', {}).get('initContainers') or states)}"
    return ""


def _container_word(states: list[Obj], word: str) -> str:
    for entry in reversed(states):
        state = entry.get("state", {})
        if reason := (state.get("waiting") or {}).get("reason"):
            word = reason
        elif (ended := state.get("terminated")) is not None:
            word = _ended_word(ended)
    return word


def _ended_word(ended: Mapping[str, Any]) -> str:
    if reason := ended.get("reason"):
        return str(reason)
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _message(pod: Obj) -> str:
    """Return why the pod does not run: the first waiting container's message, or the scheduler's."""
    status = pod.get("status", {})
    for entry in (status.get("initContainerStatuses") or []) + (status.get("containerStatuses") or []):
        if message := (entry.get("state", {}).get("waiting") or {}).get("message"):
            return str(message)
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message", ""))
    return str(status.get("message", ""))


def _node_row(node: Obj, used: int, readings: Iterable[GpuReading]) -> NodeRow:
    labels, status = node["metadata"].get("labels") or {}, node.get("status", {})
    offered = status.get("allocatable") or {}
    return NodeRow(
        name=node["metadata"]["name"],
        ready=_condition(node, "Ready"),
        schedulable=not node.get("spec", {}).get("unschedulable", False),
        arch=labels.get("kubernetes.io/arch", "") or status.get("nodeInfo", {}).get("architecture", ""),
        product=labels.get("nvidia.com/gpu.product", ""),
        gpus=quantity(offered.get(GPU, 0)),
        gpus_used=used,
        cpu=str(offered.get("cpu", "")),
        memory=f"{quantity(offered['memory']) / 2**30:.0f} GiB" if "memory" in offered else "",
        readings=tuple(readings)[:MAX_GPUS],
        for_toolbox=is_set_aside(node),
    )


def quantity(text: Any) -> int:
    """Return a Kubernetes quantity as a whole number; 0 where it is none."""
    digits = str(text).rstrip("KMGTikm")
    unit = str(text)[len(digits) :]
    return int(float(digits) * _UNIT[unit]) if unit in _UNIT and _NUMBER.fullmatch(digits) else 0


def _gpus(pod: Obj) -> int:
    containers = pod.get("spec", {}).get("containers") or []
    return sum(quantity((entry.get("resources", {}).get("limits") or {}).get(GPU, 0)) for entry in containers)


def _condition(obj: Obj, kind: str, status: str = "True") -> bool:
    conditions = obj.get("status", {}).get("conditions") or []
    return any(entry.get("type") == kind and entry.get("status") == status for entry in conditions)


def _namespace(obj: Obj) -> str:
    return str(obj["metadata"].get("namespace", ""))


def _time(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) and text else None
