"""What a kubelet looks at before it takes a pod: whoever bound it may not have asked whether the node has room."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kubesim.client import Client
from kubesim.errors import Obj
from kubesim.scheduler.filters import ports_free
from kubesim.scheduler.state import ENDED, NodeState, PodInfo
from kubesim.scheduler.terms import selects_node, untolerated

SHORT = "Node didn't have enough resource: {}, requested: {}, used: {}, capacity: {}"
FAILED = "Predicate {} failed: {}"
OWN = ("cpu", "memory", "ephemeral-storage")
"""Resources that every node has; of others, those that a node does not have are not asked for."""
AFFINITY = "node(s) didn't match Pod's node affinity/selector"
PORTS = "node(s) didn't have free ports for the requested pod ports"
TAINTS = "node(s) had taints that the pod didn't tolerate"


@dataclass
class Room:
    """What one node has left, as far as its kubelet knows."""

    state: NodeState
    known: set[str] = field(default_factory=set)
    looked_at: PodInfo | None = None
    """The pod of which ``refusal`` has spoken last."""

    def enter(self, pod: Obj) -> None:
        """Count a pod in."""
        uid = pod["metadata"]["uid"]
        if uid not in self.known and pod.get("status", {}).get("phase") not in ENDED:
            known = self.looked_at if self.looked_at is not None and self.looked_at.obj is pod else None
            self.known.add(uid)
            self.state.add(known or PodInfo(pod))

    def leave(self, uid: str) -> None:
        """Count a pod out."""
        if uid in self.known:
            self.known.discard(uid)
            self.state.remove(uid)

    async def refusal(self, client: Client, pod: Obj, others: Iterable[Obj]) -> tuple[str, str] | None:
        """Return why a pod is not taken (reason, message), counted anew with the node as it is now."""
        self.looked_at = PodInfo(pod)
        if _refusal(self.looked_at, self.state) is None:
            return None
        self.state = NodeState(await client.get("nodes", self.state.name))
        self.known.clear()
        for other in others:
            self.enter(other)
        return _refusal(self.looked_at, self.state)


def _short(pod: PodInfo, node: NodeState) -> tuple[str, str] | None:
    wanted, used = {"pods": 1, **pod.requests}, {"pods": len(node.pods), **node.requested}
    for name, amount in wanted.items():
        capacity = node.allocatable.get(name, 0)
        asked = name in node.allocatable or name in OWN
        if asked and amount and amount > capacity - used.get(name, 0):
            return f"OutOf{name}", SHORT.format(name, amount, used.get(name, 0), capacity)
    return None


def _refusal(pod: PodInfo, node: NodeState) -> tuple[str, str] | None:
    short = _short(pod, node)
    if short is not None:
        return short
    if not selects_node(pod.spec, node):
        return "NodeAffinity", FAILED.format("NodeAffinity", AFFINITY)
    if ports_free(pod, node) is not None:
        return "NodePorts", FAILED.format("NodePorts", PORTS)
    if untolerated(pod.spec, node, ("NoExecute",)) is not None:
        return "TaintToleration", FAILED.format("TaintToleration", TAINTS)
    return None


def was_refused(pod: Obj) -> bool:
    """Whether a pod has ended without ever having had a container."""
    status = pod.get("status", {})
    return status.get("phase") in ENDED and not status.get("containerStatuses")


def refused(pod: Obj, reason: str, message: str, now: str) -> Obj:
    """Return the status of a pod that is not taken."""
    old = pod.get("status", {})
    status = {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}", "startTime": now}
    return {**status, "qosClass": old["qosClass"]} if old.get("qosClass") else status
