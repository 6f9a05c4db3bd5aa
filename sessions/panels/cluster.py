"""Panels of the cluster as the observer sees it: workloads, pods, nodes with their GPUs, events."""

from __future__ import annotations

from dataclasses import dataclass

from faults.metrics import GpuReading
from faults.services import credentials_refused_at
from sessions.live import PodRow, WorkloadRow
from sessions.panels import words
from sessions.panels.subject import Context, Subject

MOST_PODS = 200
MOST_EVENTS = 60
MOST_WORKLOADS = 50
MAX_READINGS = 64
_WORKING = {"Running": "green", "Completed": "green", "Succeeded": "green"}
_ON_THE_WAY = {"Pending", "ContainerCreating", "PodInitializing", "Terminating", "Init:0/1"}


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod as its row shows it; ``several``: the pods are in more than one namespace, so that names need theirs."""

    pod: PodRow
    state: words.Chip
    several: bool

    @property
    def key(self) -> str:
        """Return the pod's name with its namespace."""
        return f"{self.pod.namespace}/{self.pod.name}"


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """A job or deployment as its row shows it."""

    workload: WorkloadRow
    several: bool

    @property
    def key(self) -> str:
        """Return the kind and the name with its namespace."""
        return f"{self.workload.kind} {self.workload.namespace}/{self.workload.name}"


@dataclass(frozen=True, slots=True)
class GpuView:
    """A GPU's readings as the table shows them."""

    reading: GpuReading

    @property
    def key(self) -> str:
        """Return the node with the GPU's number."""
        return f"{self.reading.node} {self.reading.gpu}"


def pods(subject: Subject) -> Context:
    """Return the pods with kubectl's words; the ones that the fault broke are marked as intended."""
    rows = subject.live.pods if subject.live else []
    several = len({row.namespace for row in rows}) > 1
    shown = [PodView(row, pod_chip(row.status, intended=row.intended), several) for row in rows[:MOST_PODS]]
    fresh = _freshness(subject)
    refused = bool(fresh["stale_since"] and credentials_refused_at(subject.session.cluster, subject.now))
    return {"pods": shown, "more": max(0, len(rows) - MOST_PODS), "refused": refused, **fresh}


def workloads(subject: Subject) -> Context:
    """Return the jobs and deployments with how far each has come."""
    rows = subject.live.workloads if subject.live else []
    several = len({row.namespace for row in rows}) > 1
    return {
        "workloads": [WorkloadView(row, several) for row in rows[:MOST_WORKLOADS]],
        "more": max(0, len(rows) - MOST_WORKLOADS),
        **_freshness(subject),
    }


def nodes(subject: Subject) -> Context:
    """Return the nodes, how many of their GPUs are held, and what Prometheus tells of each GPU."""
    live = subject.live
    rows = live.nodes if live else []
    readings = [GpuView(gpu) for gpu in sorted((gpu for row in rows for gpu in row.readings), key=_telling_first)]
    counted = [row for row in rows if not row.for_toolbox]
    return {
        "nodes": rows,
        "gpus": sum(row.gpus for row in counted),
        "gpus_used": sum(row.gpus_used for row in counted),
        "readings": readings[:MAX_READINGS],
        "more_readings": max(0, len(readings) - MAX_READINGS),
        "metrics_at": live.metrics_at if live else None,
        "metrics_error": live.metrics_error if live else "",
        "gpus_at": live.gpus_at if live else None,
        "no_gpus": live.no_gpus if live and counted and any(row.gpus for row in counted) else "",
        **_freshness(subject),
    }


def events(subject: Subject) -> Context:
    """Return the newest Kubernetes events first."""
    rows = subject.live.events if subject.live else []
    return {"events": rows[:MOST_EVENTS], "more": max(0, len(rows) - MOST_EVENTS), **_freshness(subject)}


def pod_chip(status: str, *, intended: bool) -> words.Chip:
    """Return how a pod's status is shown. Broken as designed is amber; otherwise broken is orange, never ours."""
    if hue := _WORKING.get(status):
        return words.Chip("tick" if status != "Running" else "dot", status, hue)
    if status in _ON_THE_WAY:
        return words.Chip("half", status, "blue")
    return words.Chip("triangle", status, "amber" if intended else "orange")


def _telling_first(gpu: GpuReading) -> tuple[bool, bool]:
    """Return the key by which readings are sorted: GPUs with an Xid, then those that pods hold, each as they came."""
    return not gpu.xid, not gpu.pod


def _freshness(subject: Subject) -> Context:
    live = subject.live
    return {"synced_at": live.synced_at if live else None, "stale_since": live.stale_since if live else None}
