"""Metrics of a cluster at one time: its GPUs, the network faults in it, a namespace's workers, and its nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from faults import clock, selectors
from faults.api.access import guarded
from faults.api.network_schemas import Namespace
from faults.api.problems import ApiProblem
from faults.api.recording import caller_of
from faults.api.schemas import REFUSED
from faults.errors import ClusterError
from faults.metrics import GPU_QUERY, PrometheusSource, parse_gpus
from faults.models import Cluster, InjectedFault
from faults.network_faults import COMPONENT
from faults.services.api_tokens import METRICS

router = Router(tags=["metrics"])
Window = Annotated[int, Field(ge=15, le=3600, description="Seconds over which rates are taken.")]
GPU = "nvidia.com/gpu"
_REQUESTS = 'sum(rate(vllm:request_success_total{{namespace="{namespace}"}}[{seconds}s]))'
Obj = dict[str, Any]


class GpuMetrics(Schema):
    """A GPU: per cent, MiB, degrees Celsius, and the last Xid (0: none); null where nothing was told."""

    node: str
    gpu: str
    pod: str
    util: float | None
    used_mib: float | None
    free_mib: float | None
    temperature: float | None
    xid: float | None


class NetworkMetrics(Schema):
    """The network faults of the API that are not over."""

    active_faults: int
    targets: list[str]


class InferenceMetrics(Schema):
    """The workers of the namespace; requests per second are null where no worker counts them."""

    workers: int
    ready_workers: int
    restarts: int
    requests_per_second: float | None


class NodeHealth(Schema):
    """A node: whether it takes pods, its GPUs, and its conditions that are not well."""

    node: str
    ready: bool
    schedulable: bool
    gpus: int
    allocatable_gpus: int
    trouble: list[str]


class MetricsOut(Schema):
    """Everything at one time."""

    timestamp: datetime
    namespace: str
    duration: int
    gpu_metrics: list[GpuMetrics]
    network_metrics: NetworkMetrics
    inference_metrics: InferenceMetrics
    node_health: list[NodeHealth]


@router.get("/collect", response={200: MetricsOut, **REFUSED}, **guarded(METRICS), summary="Collect metrics")
def collect_metrics(request: HttpRequest, namespace: Query[Namespace], duration: Window = 60) -> Any:
    """Return what the cluster's Prometheus and API server tell now."""
    cluster = caller_of(request).cluster
    kube = selectors.kube_for(cluster)
    kube.get("v1", "Namespace", namespace)
    try:
        source = selectors.prometheus_for(cluster)
        try:
            gpus = parse_gpus(source.query(GPU_QUERY))
            rate = _number(source, _REQUESTS.format(namespace=namespace, seconds=duration))
        finally:
            source.close()
    except ClusterError as exc:
        action = "Install a Prometheus that scrapes dcgm-exporter, or store its address with the cluster."
        raise ApiProblem(503, "metrics_unavailable", exc.message, action) from exc
    return {
        "timestamp": clock.now(),
        "namespace": namespace,
        "duration": duration,
        "gpu_metrics": [asdict(gpu) for gpu in gpus],
        "network_metrics": _network(cluster),
        "inference_metrics": _inference(kube.list("v1", "Pod", namespace, f"{COMPONENT}=worker"), rate),
        "node_health": [_node(node) for node in kube.list("v1", "Node")],
    }


def _number(source: PrometheusSource, promql: str) -> float | None:
    """Return the one value of a query; None where it has none that is a number."""
    found = source.query(promql)
    try:
        value = float(found[0]["value"][1])
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _network(cluster: Cluster) -> Obj:
    active = InjectedFault.objects.filter(cluster=cluster, type__startswith="network_", recovered_at=None)
    targets = list(active.values_list("target", flat=True))
    return {"active_faults": len(targets), "targets": targets}


def _inference(pods: Sequence[Obj], rate: float | None) -> Obj:
    statuses = [pod.get("status") or {} for pod in pods]
    containers = [row for status in statuses for row in status.get("containerStatuses") or ()]
    return {
        "workers": len(pods),
        "ready_workers": sum(_condition(status, "Ready") == "True" for status in statuses),
        "restarts": sum(int(row.get("restartCount", 0)) for row in containers),
        "requests_per_second": rate,
    }


def _node(node: Obj) -> Obj:
    status = node.get("status") or {}
    states = {row["type"]: row["status"] for row in status.get("conditions") or ()}
    trouble = [kind for kind, state in states.items() if state != ("True" if kind == "Ready" else "False")]
    return {
        "node": node["metadata"]["name"],
        "ready": states.get("Ready") == "True",
        "schedulable": not (node.get("spec") or {}).get("unschedulable", False),
        "gpus": int((status.get("capacity") or {}).get(GPU, 0)),
        "allocatable_gpus": int((status.get("allocatable") or {}).get(GPU, 0)),
        "trouble": sorted(trouble),
    }


def _condition(status: Obj, kind: str) -> str:
    return next((str(row["status"]) for row in status.get("conditions") or () if row["type"] == kind), "")
