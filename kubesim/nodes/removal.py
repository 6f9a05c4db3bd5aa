"""Leaving a cluster without a trace: the pods on our nodes, the nodes, their leases, our requests and our rights.

What is ours is known by the group's label, so that a later start, or ``--remove``, finds what a killed process left.
Even without either the cluster cleans up by itself once the group's cluster role is deleted: the nodes belong to it,
their leases to the nodes, and pods of nodes that are gone are collected.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kubesim.client import Client
from kubesim.errors import ApiError
from kubesim.kubelet.announce import LEASE_NAMESPACE
from kubesim.nodes.account import BINDINGS, LOCAL_BINDINGS, NAMESPACE, ROLES, Group
from kubesim.nodes.certificates import REQUESTS

LEASES = "leases.coordination.k8s.io"
PURPOSES = ("client", "serving")
FORGIVEN = (403, 404, 409)
"""Not allowed to us, not there (any more), or changed meanwhile: nothing that another try would mend."""
log = logging.getLogger(__name__)


async def pods(client: Client, node: str) -> None:
    """End the pods of a node at once, with the node's own right or a greater one."""
    found = await client.list("pods", field_selector=f"spec.nodeName={node}")
    for pod in found.items:
        meta = pod["metadata"]
        await _drop(client, "pods", meta["name"], meta["namespace"], uid=meta["uid"])


async def lease(client: Client, node: str) -> None:
    """Drop a node's lease."""
    await _drop(client, LEASES, node, LEASE_NAMESPACE)


async def nodes(client: Client, group: Group) -> list[str]:
    """Remove every node of a group, then its pods and its lease as far as the user may; returns the nodes' names.

    The nodes go first, so that nobody starts a pod there again.
    """
    found = await client.list("nodes", label_selector=group.selector)
    names = [node["metadata"]["name"] for node in found.items]
    for name in names:
        await _drop(client, "nodes", name)
    for name in names:
        await belongings(client, name)
    return names


async def belongings(client: Client, node: str) -> None:
    """End a node's pods and drop its lease, as far as the user may."""
    try:
        await pods(client, node)
        await lease(client, node)
    except ApiError as error:
        if error.code not in FORGIVEN:
            raise


async def requests(client: Client, group: Group, names: Iterable[str]) -> None:
    """Drop the requests for certificates of some nodes."""
    for name in names:
        for purpose in PURPOSES:
            await _drop(client, REQUESTS, group.request(name, purpose))


async def rights(client: Client, group: Group) -> None:
    """Drop the group's account and what it may do; the cluster role goes last, for it owns the nodes."""
    await _drop(client, BINDINGS, f"{group.account}-as-node")
    await _drop(client, BINDINGS, group.account)
    await _drop(client, LOCAL_BINDINGS, group.account, NAMESPACE)
    await _drop(client, "serviceaccounts", group.account, NAMESPACE)
    await _drop(client, ROLES, group.account)


async def _drop(client: Client, resource: str, name: str, namespace: str = "", uid: str = "") -> None:
    try:
        await client.delete(resource, name, namespace, grace_seconds=0, uid=uid)
    except ApiError as error:
        if error.code not in FORGIVEN:
            raise
        if error.code == 403:
            log.info("%s %s stays: %s", resource, name, error.message)
