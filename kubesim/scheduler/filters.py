"""The filters in upstream's order. The first that refuses a node gives its reasons for that node.

A refusal is resolvable if removing pods from the node could lift it: that decides the preemption half of the message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kubesim.api.selectors import from_struct
from kubesim.errors import Obj
from kubesim.scheduler.state import Cluster, NodeState, host_ports, requests
from kubesim.scheduler.terms import selects_node, tolerates, untolerated

UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node is out."""

    reasons: tuple[str, ...]
    resolvable: bool = False


Filter = Callable[[Obj, NodeState, Cluster], Refusal | None]


def node_unschedulable(pod: Obj, node: NodeState, cluster: Cluster) -> Refusal | None:
    """A cordoned node takes only pods that tolerate it."""
    if not node.obj.get("spec", {}).get("unschedulable"):
        return None
    if tolerates(pod["spec"].get("tolerations") or [], UNSCHEDULABLE_TAINT):
        return None
    return Refusal(("node(s) were unschedulable",))


def taint_toleration(pod: Obj, node: NodeState, cluster: Cluster) -> Refusal | None:
    """A taint keeps off who does not tolerate it. The text is that of 1.34.4: earlier ones named the taint."""
    return Refusal(("node(s) had untolerated taint(s)",)) if untolerated(pod["spec"], node) else None


def node_affinity(pod: Obj, node: NodeState, cluster: Cluster) -> Refusal | None:
    """Node selector and required node affinity."""
    return (
        None if selects_node(pod["spec"], node) else Refusal(("node(s) didn't match Pod's node affinity/selector",))
    )


def node_ports(pod: Obj, node: NodeState, cluster: Cluster) -> Refusal | None:
    """Host ports are taken once per address; no address means every address."""
    taken = {port for other in node.pods.values() for port in host_ports(other["spec"])}
    for ip, protocol, port in host_ports(pod["spec"]):
        for other_ip, other_protocol, other_port in taken:
            meets = ip == other_ip or ip in ("", "0.0.0.0") or other_ip in ("", "0.0.0.0")  # noqa: S104
            if meets and (protocol, port) == (other_protocol, other_port):
                return Refusal(("node(s) didn't have free ports for the requested pod ports",), resolvable=True)
    return None


def node_resources(pod: Obj, node: NodeState, cluster: Cluster) -> Refusal | None:
    """Every resource that is short is named; one that the empty node could not give either is beyond preemption."""
    reasons, resolvable = [], True
    if len(node.pods) + 1 > node.allocatable("pods"):
        reasons.append("Too many pods")
    for name, wanted in requests(pod["spec"]).items():
        allocatable = node.allocatable(name)
        if wanted and wanted > allocatable - node.requested[name]:
            reasons.append(f"Insufficient {name}")
            resolvable = resolvable and wanted <= allocatable
    return Refusal(tuple(reasons), resolvable) if reasons else None


def volume_binding(pod: Obj, node: NodeState, cluster: Cluster) -> Refusal | None:
    """A pod goes where its volumes are, or can be made."""
    if cluster.volumes is None or not pod["spec"].get("volumes"):
        return None
    reasons = cluster.volumes.refusals(pod, node)
    return Refusal(reasons) if reasons else None


def topology_spread(pod: Obj, node: NodeState, cluster: Cluster) -> Refusal | None:
    """Hard topology spread constraints."""
    text = "node(s) didn't match pod topology spread constraints"
    for constraint in pod["spec"].get("topologySpreadConstraints") or ():
        if constraint.get("whenUnsatisfiable") != "DoNotSchedule":
            continue
        key = constraint["topologyKey"]
        if key not in node.labels:
            return Refusal((f"{text} (missing required label)",))
        counts = _domain_counts(constraint, pod, cluster)
        own = from_struct(constraint.get("labelSelector")).matches(pod["metadata"].get("labels"))
        if counts[node.labels[key]] + int(own) - min(counts.values()) > constraint["maxSkew"]:
            return Refusal((text,), resolvable=True)
    return None


def _domain_counts(constraint: Obj, pod: Obj, cluster: Cluster) -> dict[str, int]:
    key, selector = constraint["topologyKey"], from_struct(constraint.get("labelSelector"))
    counts = {n.labels[key]: 0 for n in cluster.nodes.values() if key in n.labels and selects_node(pod["spec"], n)}
    for node, other in cluster.pods():
        domain = node.labels.get(key)
        same = other["metadata"].get("namespace") == pod["metadata"].get("namespace")
        if domain in counts and same and selector.selects(other):
            counts[domain] += 1
    return counts


def inter_pod_affinity(pod: Obj, node: NodeState, cluster: Cluster) -> Refusal | None:
    """Required pod affinity and anti-affinity, and the anti-affinity of the pods that are there."""
    for term in _terms(pod, "podAffinity"):
        if not _near(term, pod, pod, node, cluster) and not _first_of_its_kind(term, pod, node, cluster):
            return Refusal(("node(s) didn't match pod affinity rules",))
    if any(_near(term, pod, pod, node, cluster) for term in _terms(pod, "podAntiAffinity")):
        return Refusal(("node(s) didn't match pod anti-affinity rules",), resolvable=True)
    for other_node, other in cluster.pods():
        for term in _terms(other, "podAntiAffinity"):
            if _same_domain(term, node, other_node) and _selects(term, other, pod):
                return Refusal(("node(s) didn't satisfy existing pods anti-affinity rules",), resolvable=True)
    return None


def _terms(pod: Obj, kind: str) -> list[Obj]:
    affinity = (pod["spec"].get("affinity") or {}).get(kind) or {}
    return affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or []


def _selects(term: Obj, owner: Obj, other: Obj) -> bool:
    namespaces = term.get("namespaces") or [owner["metadata"].get("namespace")]
    anywhere = term.get("namespaceSelector") == {}
    if not anywhere and other["metadata"].get("namespace") not in namespaces:
        return False
    return from_struct(term.get("labelSelector")).matches(other["metadata"].get("labels"))


def _same_domain(term: Obj, one: NodeState, other: NodeState) -> bool:
    value = one.labels.get(term["topologyKey"])
    return value is not None and value == other.labels.get(term["topologyKey"])


def _near(term: Obj, owner: Obj, pod: Obj, node: NodeState, cluster: Cluster) -> bool:
    return any(_same_domain(term, node, at) and _selects(term, owner, other) for at, other in cluster.pods())


def _first_of_its_kind(term: Obj, pod: Obj, node: NodeState, cluster: Cluster) -> bool:
    """A pod whose affinity asks for its own kind may be the first one."""
    if term["topologyKey"] not in node.labels or not _selects(term, pod, pod):
        return False
    return not any(_selects(term, pod, other) for _, other in cluster.pods())


FILTERS: tuple[Filter, ...] = (
    node_unschedulable,
    taint_toleration,
    node_affinity,
    node_ports,
    node_resources,
    volume_binding,
    topology_spread,
    inter_pod_affinity,
)


def refuse(pod: Obj, node: NodeState, cluster: Cluster) -> Refusal | None:
    """Return the first refusal, or None for a node that fits."""
    for check in FILTERS:
        refusal = check(pod, node, cluster)
        if refusal is not None:
            return refusal
    return None
