"""Topology spread constraints: those that must hold, and how well a node serves those that should."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import partial

from kubesim.api.selectors import LabelSelector, Requirement, from_struct
from kubesim.errors import Obj
from kubesim.scheduler.state import Check, Cluster, NodeState, PodInfo, Refusal
from kubesim.scheduler.terms import selects_node, untolerated

HOST = "kubernetes.io/hostname"
DEFAULTS = (("topology.kubernetes.io/zone", 5), (HOST, 3))
"""How upstream spreads the pods of one service or owner that say nothing: (topology, tolerated skew)."""
REASON = "node(s) didn't match pod topology spread constraints"
UNEVEN = Refusal((REASON,), "PodTopologySpread", resolvable=True)
UNLABELLED = Refusal((f"{REASON} (missing required label)",), "PodTopologySpread")
FULL = 100


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint with its selector."""

    topology: str
    skew: int
    selector: LabelSelector
    domains: int = 1
    by_affinity: bool = True
    by_taints: bool = False

    def counts_in(self, pod: PodInfo, node: NodeState) -> bool:
        """Tell whether a node takes part at all."""
        if self.by_affinity and not selects_node(pod.spec, node):
            return False
        return not (self.by_taints and untolerated(pod.spec, node))


def constraints(pod: PodInfo, action: str) -> list[Constraint]:
    """Return a pod's own constraints of one kind: ``DoNotSchedule`` or ``ScheduleAnyway``."""
    listed = pod.spec.get("topologySpreadConstraints") or ()
    return [_constraint(pod, entry) for entry in listed if entry.get("whenUnsatisfiable") == action]


def _constraint(pod: PodInfo, entry: Obj) -> Constraint:
    selector = from_struct(entry.get("labelSelector"))
    keys = [key for key in entry.get("matchLabelKeys") or () if key in pod.labels]
    more = tuple(Requirement(key, "in", frozenset((pod.labels[key],))) for key in keys)
    return Constraint(
        entry["topologyKey"],
        entry["maxSkew"],
        LabelSelector((*selector.requirements, *more), selector.nothing),
        entry.get("minDomains") or 1,
        entry.get("nodeAffinityPolicy", "Honor") == "Honor",
        entry.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )


def prepare(pod: PodInfo, cluster: Cluster) -> Check | None:
    """Return the check of what must hold."""
    wanted = constraints(pod, "DoNotSchedule")
    if not wanted:
        return None
    domains = [_domains(pod, constraint, wanted, cluster) for constraint in wanted]
    return partial(_check, pod, list(zip(wanted, domains, strict=True)))


def _domains(pod: PodInfo, constraint: Constraint, every: list[Constraint], cluster: Cluster) -> Counter[str]:
    """Return how many pods each domain has; only nodes that have all the labels make domains."""
    found: Counter[str] = Counter()
    counts = cluster.matching(pod.namespace, constraint.selector)
    for node in cluster.nodes.values():
        if all(other.topology in node.labels for other in every) and constraint.counts_in(pod, node):
            found[node.labels[constraint.topology]] += counts[node.name]
    return found


def _check(pod: PodInfo, wanted: list[tuple[Constraint, Counter[str]]], node: NodeState) -> Refusal | None:
    for constraint, domains in wanted:
        domain = node.labels.get(constraint.topology)
        if domain is None:
            return UNLABELLED
        least = 0 if len(domains) < constraint.domains else min(domains.values(), default=0)
        own = constraint.selector.matches(pod.labels)
        if domains.get(domain, 0) + own - least > constraint.skew:
            return UNEVEN
    return None


def score(pod: PodInfo, nodes: list[NodeState], cluster: Cluster) -> list[int] | None:
    """Return for each node how well it serves what should hold, from 0 to 100; None where nothing asks."""
    own = bool(pod.spec.get("topologySpreadConstraints"))
    wanted = constraints(pod, "ScheduleAnyway") if own else _defaults(pod, cluster)
    if not wanted:
        return None
    ignored = {n.name for n in nodes if own and not all(found.topology in n.labels for found in wanted)}
    scored = [node for node in nodes if node.name not in ignored]
    sums = dict.fromkeys((node.name for node in scored), 0.0)
    for constraint in wanted:
        _add(sums, pod, constraint, wanted if own else [], scored, cluster)
    return _normalised([None if node.name in ignored else round(sums[node.name]) for node in nodes])


def _defaults(pod: PodInfo, cluster: Cluster) -> list[Constraint]:
    selector = cluster.relations.siblings(pod.obj)
    return [Constraint(topology, skew, selector) for topology, skew in DEFAULTS] if selector is not None else []


def _add(
    sums: dict[str, float],
    pod: PodInfo,
    constraint: Constraint,
    every: list[Constraint],
    nodes: list[NodeState],
    cluster: Cluster,
) -> None:
    """Add what one constraint makes of each node: the pods of its domain, weighed by the number of domains."""
    counts, topology = cluster.matching(pod.namespace, constraint.selector), constraint.topology
    if topology == HOST:
        domains, values = len(nodes), counts
    else:
        values = Counter({node.labels.get(topology, ""): 0 for node in nodes})
        domains = len(values)
        for node in cluster.nodes.values():
            value = node.labels.get(topology, "")
            complete = all(other.topology in node.labels for other in every)
            if value in values and complete and constraint.counts_in(pod, node):
                values[value] += counts[node.name]
    weight = math.log(domains + 2)
    for node in nodes:
        if topology in node.labels:
            count = values[node.name if topology == HOST else node.labels[topology]]
            sums[node.name] += count * weight + constraint.skew - 1


def _normalised(sums: list[int | None]) -> list[int]:
    known = [found for found in sums if found is not None]
    most, least = max(known, default=0), min(known, default=0)
    if most == 0:
        return [0 if found is None else FULL for found in sums]
    return [0 if found is None else FULL * (most + least - found) // most for found in sums]
