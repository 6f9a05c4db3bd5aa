"""The practice cluster of guide mode: made, waited for, and known to the database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from faults import clock, crypto, practice, selectors
from faults.kube.client import Kube
from faults.models import Cluster

TABLE = Path(__file__).with_name("cluster.yaml")
WORKLOADS = ("Deployment", "DaemonSet")
API = ("fault-injection-system", "fault-injection-api", 8080)
LIFE = timedelta(days=7)
"""For so long somebody may read the guide; who has killed us leaves nothing behind for longer."""
PATIENCE_S, LOOK_S = 120.0, 0.2
Obj = dict[str, Any]


class NotReady(Exception):
    """The cluster did not become ready, and for which reason."""


def make_cluster(outside: str) -> tuple[Cluster, str]:
    """Make the cluster, whose fault injection API is at ``outside``; return its row and its kubeconfig."""
    body = read_table()
    changed: list[Obj] = body.pop("settings")
    made = practice.create_guide({**body, "guide": outside, "ttlSeconds": int(LIFE.total_seconds())})
    tier, sealed = Cluster.Tier.PRACTICE, crypto.seal(made["kubeconfig"])
    cluster = Cluster.objects.create(name=body["name"], tier=tier, kubeconfig=sealed)
    apply_settings(selectors.kube_for(cluster), changed)
    return cluster, str(made["kubeconfig"])


def read_table() -> Obj:
    """Return the description of the guide's cluster."""
    found: Obj = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return found


def apply_settings(kube: Kube, changed: list[Obj]) -> None:
    """Change the configuration of addons where the guide's differs."""
    for entry in changed:
        meta = entry["metadata"]
        kube.patch("v1", "ConfigMap", meta["name"], meta["namespace"], {"data": entry["data"]})


def await_pods(cluster: Cluster, stopped: Callable[[float], bool]) -> None:
    """Wait until every pod is ready. ``stopped`` waits for some seconds, and tells whether to give up."""
    kube, end = selectors.kube_for(cluster), clock.now() + timedelta(seconds=PATIENCE_S)
    while waiting := _unready(kube):
        if clock.now() > end:
            names = ", ".join(sorted(f"{obj['metadata']['namespace']}/{obj['metadata']['name']}" for obj in waiting))
            raise NotReady(f"These did not start within {PATIENCE_S:.0f} s: {names}")
        if stopped(LOOK_S):
            raise NotReady("Stopped before it was ready.")


def _unready(kube: Kube) -> list[Obj]:
    """Return the pods that are not ready, and the workloads that have no pods yet."""
    waiting = [obj for kind in WORKLOADS for obj in kube.list("apps/v1", kind) if not _has_its_pods(obj)]
    graphs = kube.list("nvidia.com/v1alpha1", "DynamoGraphDeployment")
    return waiting + [obj for obj in (*kube.list("v1", "Pod"), *graphs) if not is_ready(obj)]


def _has_its_pods(workload: Obj) -> bool:
    status = workload.get("status") or {}
    wanted = workload["spec"].get("replicas", status.get("desiredNumberScheduled", 0))
    return "observedGeneration" in status and wanted <= status.get("numberReady", status.get("readyReplicas", 0))


def is_ready(obj: Obj) -> bool:
    """Tell whether a pod, a node or a graph is ready; a pod that has done its work counts as well."""
    status = obj.get("status") or {}
    ready = any(row["type"] == "Ready" and row["status"] == "True" for row in status.get("conditions") or ())
    return ready or status.get("phase") == "Succeeded"
