"""The decision about one pod: its node (upstream's default scores and weights), or why there is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from zlib import crc32

from kubesim.scheduler import affinity, spread
from kubesim.scheduler.filters import first_refusal, prepare, refuse
from kubesim.scheduler.preemption import (
    NEVER,
    NO_CLAIMS,
    NO_NODES,
    STILL,
    TERMINATING,
    Candidate,
    available,
    hindered,
    preempt,
    unhelped,
)
from kubesim.scheduler.state import Amounts, Check, Cluster, HinderedError, NodeState, PodInfo, Refusal
from kubesim.scheduler.terms import PREFERRED, matches_term, tolerates

ALL_UP_TO = 100
"""In clusters of up to so many nodes every node is looked at; in larger ones a share that shrinks with their size."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """``node`` for a pod that has a place; else ``text``, who refused, and the candidate if there is one."""

    node: NodeState | None = None
    text: str = ""
    plugins: frozenset[str] = field(default_factory=frozenset)
    candidate: Candidate | None = None
    nominate: str | None = None
    """The node on which room is made for the pod, "" for none, None if that stays as it is."""


class Judge:
    """Decides about pods; remembers where the last look at the nodes ended, so that all have their turn."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._start = 0

    def decide(self, pod: PodInfo, now: datetime) -> Verdict:
        """Return what becomes of a pod. Changes nothing."""
        cluster = self._cluster
        if not cluster.nodes:
            return Verdict(text=NO_NODES, plugins=frozenset({"Nodes"}))
        try:
            checks = prepare(pod, cluster)
        except HinderedError as hindrance:
            text = hindered(len(cluster.nodes), str(hindrance))
            return Verdict(text=text, plugins=frozenset({hindrance.plugin}))
        named = cluster.nodes.get(pod.nominated)
        if named is not None and refuse(pod, named, cluster, checks) is None:
            return Verdict(named)
        fitting, refusals = self._look(pod, checks)
        if fitting:
            return Verdict(best(pod, fitting, cluster))
        return self._refused(pod, refusals, now)

    def _look(self, pod: PodInfo, checks: list[Check]) -> tuple[list[NodeState], dict[str, Refusal]]:
        """Return nodes that fit, until there are enough, and what the others said."""
        nodes = list(self._cluster.nodes.values())
        enough, fitting, refusals, rivals = _enough(len(nodes)), [], {}, self._cluster.nominated
        start = self._start = self._start % len(nodes)
        for node in nodes[start:] + nodes[:start]:
            self._start += 1
            refusal = refuse(pod, node, self._cluster, checks) if rivals else first_refusal(checks, node)
            if refusal is not None:
                refusals[node.name] = refusal
                continue
            fitting.append(node)
            if len(fitting) >= enough:
                break
        return fitting, refusals

    def _refused(self, pod: PodInfo, refusals: dict[str, Refusal], now: datetime) -> Verdict:
        reasons = [reason for refusal in refusals.values() for reason in refusal.reasons]
        text = available(len(refusals), reasons)
        plugins = frozenset(refusal.plugin for refusal in refusals.values())
        candidate, why = preempt(pod, refusals, self._cluster, now)
        if candidate is not None:
            return Verdict(text=text, plugins=plugins, candidate=candidate, nominate=candidate.node)
        waits = why in (NEVER, TERMINATING)
        claims = STILL if pod.spec.get("resourceClaims") else NO_CLAIMS
        return Verdict(text=unhelped(text, why, claims), plugins=plugins, nominate=None if waits else "")


def _enough(nodes: int) -> int:
    """Return how many fitting nodes upstream compares."""
    if nodes < ALL_UP_TO:
        return nodes
    return max(ALL_UP_TO, nodes * max(5, 50 - nodes // 125) // 100)


FULL = 100
COMPARED = ("cpu", "memory")
SMALL_IMAGE = 23 * 1024**2
LARGE_IMAGE = 1000 * 1024**2
"""Bytes between which an image that is there already counts, for each container."""

Score = Callable[[PodInfo, list[NodeState], Cluster], list[int] | None]


def best(pod: PodInfo, nodes: list[NodeState], cluster: Cluster) -> NodeState:
    """Return the node with the highest score; among equals a hash draws the lot, so that a test can repeat it."""
    if len(nodes) == 1:
        return nodes[0]
    totals = total(pod, nodes, cluster)
    most = max(totals)
    equals = (node for node, found in zip(nodes, totals, strict=True) if found == most)
    lot = crc32(pod.obj["metadata"]["name"].encode())
    return min(equals, key=lambda node: crc32(node.name.encode(), lot))


def total(pod: PodInfo, nodes: list[NodeState], cluster: Cluster) -> list[int]:
    """Return the weighted sum of all scores for each node."""
    totals = [0] * len(nodes)
    for score, weight in SCORES:
        found = score(pod, nodes, cluster)
        if found is not None:
            totals = [so_far + weight * more for so_far, more in zip(totals, found, strict=True)]
    return totals


def taints(pod: PodInfo, nodes: list[NodeState], cluster: Cluster) -> list[int] | None:
    """Fewer soft taints that the pod does not bear are better."""
    if not any(node.taints for node in nodes):
        return None
    counts = [
        sum(taint["effect"] == "PreferNoSchedule" and not tolerates(pod.tolerations, taint) for taint in node.taints)
        for node in nodes
    ]
    most = max(counts)
    return [FULL - FULL * count // most for count in counts] if most else None


def node_affinity(pod: PodInfo, nodes: list[NodeState], cluster: Cluster) -> list[int] | None:
    """Preferred node affinity."""
    terms = ((pod.spec.get("affinity") or {}).get("nodeAffinity") or {}).get(PREFERRED)
    if not terms:
        return None
    sums = [sum(int(t["weight"]) for t in terms if matches_term(t["preference"], node)) for node in nodes]
    most = max(sums)
    return [FULL * found // most for found in sums] if most else None


def least_allocated(pod: PodInfo, nodes: list[NodeState], cluster: Cluster) -> list[int]:
    """The emptier node is better."""
    return [_free(pod.nonzero, node) for node in nodes]


def _free(wanted: Amounts, node: NodeState) -> int:
    share, known = 0, 0
    for name in COMPARED:
        if allocatable := node.allocatable.get(name):
            known += 1
            left = allocatable - node.nonzero[name] - wanted[name]
            share += left * FULL // allocatable if left > 0 else 0
    return share // known if known else 0


def balanced(pod: PodInfo, nodes: list[NodeState], cluster: Cluster) -> list[int] | None:
    """A node whose processors and memory are used alike is better; for pods that ask for neither all are alike."""
    wanted = pod.requests
    if not any(wanted.get(name) for name in COMPARED):
        return None
    return [_balance(wanted, node) for node in nodes]


def _balance(wanted: Amounts, node: NodeState) -> int:
    shares = [
        min(1.0, (node.requested[name] + wanted.get(name, 0)) / node.allocatable[name])
        for name in COMPARED
        if node.allocatable.get(name)
    ]
    deviation = abs(shares[0] - shares[1]) / 2 if len(shares) == len(COMPARED) else 0.0
    return int((1 - deviation) * FULL)


def images(pod: PodInfo, nodes: list[NodeState], cluster: Cluster) -> list[int] | None:
    """A node that has large images of the pod is better, the more so the more nodes have them."""
    containers = [*(pod.spec.get("initContainers") or ()), *pod.spec["containers"]]
    wanted = [_with_tag(container.get("image", "")) for container in containers]
    every = cluster.nodes.values()
    share = {name: sum(name in node.images for node in every) / len(every) for name in wanted}
    if not any(share.values()):
        return None
    most = LARGE_IMAGE * len(containers)
    sums = [sum(int(node.images.get(name, 0) * share[name]) for name in wanted) for node in nodes]
    return [FULL * (min(max(found, SMALL_IMAGE), most) - SMALL_IMAGE) // (most - SMALL_IMAGE) for found in sums]


def _with_tag(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


SCORES: tuple[tuple[Score, int], ...] = (
    (taints, 3),
    (node_affinity, 2),
    (least_allocated, 1),
    (balanced, 1),
    (spread.score, 2),
    (affinity.score, 2),
    (images, 1),
)
"""The scores, and their weights."""
