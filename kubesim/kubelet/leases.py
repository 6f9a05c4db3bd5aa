"""The leases by which nodes say that they live."""

from __future__ import annotations

from datetime import datetime

from kubesim.client import Client
from kubesim.errors import ApiError, Obj
from kubesim.kubelet import timings
from kubesim.kubelet.host import Node
from kubesim.times import micro

LEASE_NAMESPACE = "kube-node-lease"


async def renew(client: Client, node: Node, now: datetime) -> None:
    """Renew a node's lease, or make it where there is none."""
    lease = _lease(node, micro(now))
    try:
        await client.patch(
            "leases.coordination.k8s.io",
            node.name,
            LEASE_NAMESPACE,
            {"spec": {"renewTime": lease["spec"]["renewTime"]}},
        )
    except ApiError as error:
        if error.code != 404:
            return
        await _create(client, lease)


async def _create(client: Client, lease: Obj) -> None:
    try:
        await client.create("leases.coordination.k8s.io", lease, namespace=LEASE_NAMESPACE)
    except ApiError as error:
        # The namespace is made by whoever assembles the cluster, perhaps after us: the next beat tries again.
        if error.code not in (403, 404, 409):
            raise


def _lease(node: Node, renewed: str) -> Obj:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node.name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
        "spec": {"holderIdentity": node.name, "leaseDurationSeconds": timings.LEASE_S, "renewTime": renewed},
    }
