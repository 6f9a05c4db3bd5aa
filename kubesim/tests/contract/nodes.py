"""Nodes for a control plane that has none: kwok keeps them alive and their pods running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from kubesim.tests.contract.plain import Plain

NAMES = ("contract-node-1", "contract-node-2")
ACCOUNT = "contract-administrator"
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


@contextmanager
def administrator(cluster: Plain, folder: Path) -> Iterator[Path]:
    """Yield a kubeconfig of an account that may do everything, while the block lasts."""
    spaced = "/api/v1/namespaces/kube-system/serviceaccounts"
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "namespace": "kube-system", "name": ACCOUNT}
    cluster("POST", spaced, {"metadata": {"name": ACCOUNT}})
    cluster("POST", bindings, {"metadata": {"name": ACCOUNT}, "roleRef": role, "subjects": [subject]})
    token = cluster("POST", f"{spaced}/{ACCOUNT}/token", {"spec": {"expirationSeconds": 36000}}).json["status"][
        "token"
    ]
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    try:
        yield path
    finally:
        cluster("DELETE", f"{bindings}/{ACCOUNT}")
        cluster("DELETE", f"{spaced}/{ACCOUNT}")


def _node(name: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {"metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}}
