"""Pods that want to be near others or away from them: what must be, and how well a node serves what should."""

from __future__ import annotations

from collections import Counter
from functools import partial

from kubesim.scheduler.state import Check, Cluster, NodeState, PodInfo, Refusal
from kubesim.scheduler.terms import Term

NAME = "InterPodAffinity"
ALONE = Refusal(("node(s) didn't match pod affinity rules",), NAME)
TOO_NEAR = Refusal(("node(s) didn't match pod anti-affinity rules",), NAME, resolvable=True)
UNWANTED = Refusal(("node(s) didn't satisfy existing pods anti-affinity rules",), NAME, resolvable=True)
FULL = 100
HARD_WEIGHT = 1
"""What it counts that a placed pod must be near the new one."""

Places = Counter[tuple[str, str]]
"""(topology key, value) -> how many pods."""


def prepare(pod: PodInfo, cluster: Cluster) -> Check | None:
    """Return the check of what must be, of the pod and of those that are there."""
    unwanted = _unwanted(pod, cluster)
    near, apart = pod.terms["near"], pod.terms["apart"]
    if not unwanted and not near and not apart:
        return None
    liked, disliked = _others(pod, cluster) if near or apart else (Counter(), Counter())
    first = bool(near) and not liked and all(_selects(term, pod, cluster) for term in near)
    return partial(_check, near, apart, liked, disliked, unwanted, first)


def _selects(term: Term, pod: PodInfo, cluster: Cluster) -> bool:
    return term.selects(pod.namespace, pod.labels, cluster.relations.namespace_labels)


def _unwanted(pod: PodInfo, cluster: Cluster) -> Places:
    """Return where pods are that must not be near this one."""
    found: Places = Counter()
    for other in cluster.affine.values():
        for term in other.terms["apart"]:
            if _selects(term, pod, cluster):
                _count(found, term, cluster.node_of(other))
    return found


def _others(pod: PodInfo, cluster: Cluster) -> tuple[Places, Places]:
    """Return where pods are that this one must be near (all terms mean them), and must not be near."""
    liked: Places = Counter()
    disliked: Places = Counter()
    near, apart = pod.terms["near"], pod.terms["apart"]
    for node, other in cluster.pods():
        if near and all(_selects(term, other, cluster) for term in near):
            for term in near:
                _count(liked, term, node)
        for term in apart:
            if _selects(term, other, cluster):
                _count(disliked, term, node)
    return liked, disliked


def _count(places: Places, term: Term, node: NodeState | None, weight: int = 1) -> None:
    if node is not None and term.topology in node.labels:
        places[term.topology, node.labels[term.topology]] += weight


def _check(
    near: list[Term],
    apart: list[Term],
    liked: Places,
    disliked: Places,
    unwanted: Places,
    first: bool,
    node: NodeState,
) -> Refusal | None:
    if any(term.topology not in node.labels for term in near):
        return ALONE
    if not first and any(not liked[term.topology, node.labels[term.topology]] for term in near):
        return ALONE
    if any(disliked[term.topology, node.labels.get(term.topology, "")] for term in apart):
        return TOO_NEAR
    if unwanted and any(node.labels.get(key) == value for key, value in unwanted):
        return UNWANTED
    return None


def score(pod: PodInfo, nodes: list[NodeState], cluster: Cluster) -> list[int] | None:
    """Return for each node how well it serves what should be, from 0 to 100; None where nobody asks."""
    places = _weighed(pod, cluster)
    if not places:
        return None
    keys = {key for key, _ in places}
    sums = [sum(places[key, node.labels[key]] for key in keys if key in node.labels) for node in nodes]
    least, span = min(sums), max(sums) - min(sums)
    return [FULL * (found - least) // span if span else 0 for found in sums]


def _weighed(pod: PodInfo, cluster: Cluster) -> Places:
    found: Places = Counter()
    near, apart = pod.terms["rather near"], pod.terms["rather apart"]
    if near or apart:
        for node, other in cluster.pods():
            for sign, terms in ((1, near), (-1, apart)):
                for term in terms:
                    if _selects(term, other, cluster):
                        _count(found, term, node, sign * term.weight)
    for other in cluster.affine.values():
        for kind, sign in (("near", HARD_WEIGHT), ("rather near", 1), ("rather apart", -1)):
            for term in other.terms[kind]:
                if _selects(term, pod, cluster):
                    _count(found, term, cluster.node_of(other), sign * (term.weight or 1))
    return found
