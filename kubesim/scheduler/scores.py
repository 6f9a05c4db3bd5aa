"""Which of the nodes that fit is best: upstream's default scores and weights, where they can differ here."""

from __future__ import annotations

from kubesim.errors import Obj
from kubesim.scheduler.state import Cluster, NodeState, nonzero_requests
from kubesim.scheduler.terms import matches_term, untolerated

FULL = 100.0
SPREAD_WEIGHT = 2
TAINT_WEIGHT = 3
AFFINITY_WEIGHT = 2


def best(pod: Obj, nodes: list[NodeState], cluster: Cluster) -> NodeState:
    """Return the node with the highest score; of equals the first by name (upstream draws lots)."""
    return max(sorted(nodes, key=lambda node: node.name), key=lambda node: score(pod, node, cluster))


def score(pod: Obj, node: NodeState, cluster: Cluster) -> float:
    """Return the weighted sum of all scores."""
    total = _least_allocated(pod, node) + _balanced(pod, node) + SPREAD_WEIGHT * _spread(pod, node)
    total += 0.0 if untolerated(pod["spec"], node, ("PreferNoSchedule",)) else TAINT_WEIGHT * FULL
    return total + AFFINITY_WEIGHT * _preferred(pod, node)


def _shares(pod: Obj, node: NodeState) -> list[float]:
    wanted = nonzero_requests(pod["spec"])
    shares = []
    for name in ("cpu", "memory"):
        capacity = node.allocatable(name)
        shares.append(min(1.0, (node.nonzero[name] + wanted[name]) / capacity) if capacity else 1.0)
    return shares


def _least_allocated(pod: Obj, node: NodeState) -> float:
    shares = _shares(pod, node)
    return FULL * sum(1 - share for share in shares) / len(shares)


def _balanced(pod: Obj, node: NodeState) -> float:
    cpu, memory = _shares(pod, node)
    return FULL * (1 - abs(cpu - memory) / 2)


def _spread(pod: Obj, node: NodeState) -> float:
    """Fewer pods of the same owner on the node are better."""
    owner = owner_of(pod)
    if not owner:
        return FULL
    same = sum(owner_of(other) == owner for other in node.pods.values())
    return FULL / (1 + same)


def owner_of(pod: Obj) -> str:
    """Return the uid of the controller of a pod."""
    references = pod["metadata"].get("ownerReferences") or ()
    return next((str(ref["uid"]) for ref in references if ref.get("controller")), "")


def _preferred(pod: Obj, node: NodeState) -> float:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    total = sum(int(term["weight"]) for term in terms)
    if not total:
        return 0.0
    return FULL * sum(int(term["weight"]) for term in terms if matches_term(term["preference"], node)) / total
