"""NVSentinel's own doings between two routes of a proof: it is let finish, and what it has kept of them is removed.

It notices at its next look that a fault is gone, opens the node again and keeps a record: orders, and labels of who
opened a node. They are no residue of the fault, but the next route has to find a cluster that has had none.
"""

from __future__ import annotations

from collections.abc import Iterator

from faults.catalog_check.errors import ProofFailed
from faults.clock import Clock
from faults.kube.client import Kube
from faults.nvsentinel.watched import ORDER_KINDS, ORDER_VERSION, UNCORDONED_AT, NodeState, is_done

ADDON = "nvsentinel"
PATIENCE_S, LOOK_S = 300.0, 10.0
QUARANTINED = "quarantine"
"""The beginning of the annotations that a node has while it is NVSentinel's."""
OPENED = ("k8saas.nvidia.com/uncordon-by", UNCORDONED_AT)


def let_finish(kube: Kube, clock: Clock) -> None:
    """Wait until NVSentinel has nothing to do with any node, and remove its records. Raises ProofFailed."""
    waited = 0.0
    while held := list(_held(kube)):
        if waited >= PATIENCE_S:
            raise ProofFailed(f"NVSentinel does not let go of {', '.join(held)}")
        clock.wait(LOOK_S)
        waited += LOOK_S
    for kind in ORDER_KINDS:
        for order in kube.list(ORDER_VERSION, kind):
            kube.delete(ORDER_VERSION, kind, order["metadata"]["name"])
    for node in kube.list("v1", "Node"):
        if known := [label for label in OPENED if label in node["metadata"]["labels"]]:
            patch = {"metadata": {"labels": dict.fromkeys(known)}}
            kube.patch("v1", "Node", node["metadata"]["name"], "", patch)


def _held(kube: Kube) -> Iterator[str]:
    """Yield the nodes that it holds, those of orders that it carries through, and those that are not well yet."""
    orders = [order for kind in ORDER_KINDS for order in kube.list(ORDER_VERSION, kind)]
    repaired = {order["spec"]["nodeName"] for order in orders if not is_done(order)}
    for node in map(NodeState, kube.list("v1", "Node")):
        name = str(node.node["metadata"]["name"])
        annotated = any(note.startswith(QUARANTINED) for note in node.notes)
        if annotated or node.state or name in repaired or not node.is_well:
            yield name
