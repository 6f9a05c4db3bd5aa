"""The decision about one pod: where it goes, or why nowhere, and who must make room."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

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
from kubesim.scheduler.scores import best
from kubesim.scheduler.state import Check, Cluster, HinderedError, NodeState, PodInfo, Refusal

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
