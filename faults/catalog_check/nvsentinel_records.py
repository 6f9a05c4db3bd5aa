"""NVSentinel's own doings between two routes of a proof: it is let finish, and what it has kept of them is removed.

It notices at its next look that a fault is gone, opens the node again and keeps a record: orders, and labels of who
opened a node. They are no residue of the fault, but the next route has to find a cluster that has had none.
"""

from __future__ import annotations

from collections.abc import Iterator

from faults.catalog_check.errors import ProofFailed
from faults.clock import Clock
from faults.kube.client import Kube, Obj
from faults.nvsentinel.watched import CHECKS, ORDER_KINDS, ORDER_VERSION, STATE, UNCORDONED_AT

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
    for node in kube.list("v1", "Node"):
        meta = node["metadata"]
        annotated = any(name.startswith(QUARANTINED) for name in meta.get("annotations") or {})
        if annotated or STATE in meta["labels"] or _is_marked(node):
            yield meta["name"]


def _is_marked(node: Obj) -> bool:
    conditions = node["status"].get("conditions") or ()
    return any(one["type"] in CHECKS and one["status"] == "True" for one in conditions)
