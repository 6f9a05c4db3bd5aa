"""The practice cluster of guide mode: made, waited for, and known to the database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from faults import clock, crypto, practice, selectors
from faults.models import Cluster

TABLE = Path(__file__).with_name("cluster.yaml")
API = ("fault-injection-system", "fault-injection-api", 8080)
LIFE = timedelta(days=7)
"""For so long somebody may read the guide; who has killed us leaves nothing behind for longer."""
PATIENCE_S, LOOK_S = 120.0, 0.2
Obj = dict[str, Any]


class NotReady(Exception):
    """The cluster did not become ready, and for which reason."""


def make_cluster(outside: str) -> tuple[Cluster, str]:
    """Make the cluster, whose fault injection API is at ``outside``; return its row and its kubeconfig."""
    body: Obj = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    settings: list[Obj] = body.pop("settings")
    made = practice.create_guide({**body, "guide": outside, "ttlSeconds": int(LIFE.total_seconds())})
    tier, sealed = Cluster.Tier.PRACTICE, crypto.seal(made["kubeconfig"])
    cluster = Cluster.objects.create(name=body["name"], tier=tier, kubeconfig=sealed)
    for entry in settings:
        meta = entry["metadata"]
        selectors.kube_for(cluster).patch("v1", "ConfigMap", meta["name"], meta["namespace"], {"data": entry["data"]})
    return cluster, str(made["kubeconfig"])


def await_pods(cluster: Cluster, stopped: Callable[[float], bool]) -> None:
    """Wait until every pod is ready. ``stopped`` waits for some seconds, and tells whether to give up."""
    kube, end = selectors.kube_for(cluster), clock.now() + timedelta(seconds=PATIENCE_S)
    while waiting := [pod for pod in kube.list("v1", "Pod") if not _is_ready(pod)]:
        if clock.now() > end:
            names = ", ".join(sorted(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in waiting))
            raise NotReady(f"These pods did not start within {PATIENCE_S:.0f} s: {names}")
        if stopped(LOOK_S):
            raise NotReady("Stopped before it was ready.")


def _is_ready(pod: Obj) -> bool:
    status = pod.get("status") or {}
    ready = any(row["type"] == "Ready" and row["status"] == "True" for row in status.get("conditions") or ())
    return ready or status.get("phase") == "Succeeded"
