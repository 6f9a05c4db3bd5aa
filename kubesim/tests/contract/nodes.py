"""Nodes for a control plane that has none: kwok keeps them alive and their pods running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kubesim.tests.contract.plain import Plain

NAMES = ("contract-node-1", "contract-node-2")
CAPACITY = {"cpu": "96", "memory": "1024Gi", "pods": "110", "ephemeral-storage": "1Ti", "nvidia.com/gpu": "8"}


@contextmanager
def registered(cluster: Plain) -> Iterator[None]:
    """Keep two nodes on a cluster that has none while the block lasts."""
    ours = [] if cluster("GET", "/api/v1/nodes").json["items"] else NAMES
    for name in ours:
        assert cluster("POST", "/api/v1/nodes", _node(name)).code == 201
        status = {"status": {"capacity": CAPACITY, "allocatable": CAPACITY}}
        path = f"/api/v1/nodes/{name}/status"
        assert cluster("PATCH", path, status, kind="application/merge-patch+json").code == 200
    try:
        yield
    finally:
        for name in ours:
            cluster("DELETE", f"/api/v1/nodes/{name}")


def _node(name: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {"metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}}
