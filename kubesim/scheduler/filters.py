"""The filters in upstream's order. The first that refuses a node gives its reasons for that node.

A filter is prepared once for a pod: it answers with a check of single nodes, or with None if it has nothing to check.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kubesim.scheduler import affinity, spread
from kubesim.scheduler.state import EVERY_ADDRESS, Amounts, Check, Cluster, HinderedError, NodeState, PodInfo, Refusal
from kubesim.scheduler.terms import named_nodes, node_terms, selects_node, tolerates, untolerated

UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
CORDONED = Refusal(("node(s) were unschedulable",), "NodeUnschedulable")
TAINTED = Refusal(("node(s) had untolerated taint(s)",), "TaintToleration")
"""The text is that of 1.34.4: earlier ones named the taint."""
NOT_SELECTED = Refusal(("node(s) didn't match Pod's node affinity/selector",), "NodeAffinity")
NOT_NAMED = Refusal(("node(s) didn't satisfy plugin(s) [NodeAffinity]",), "NodeAffinity")
NO_PORTS = Refusal(("node(s) didn't have free ports for the requested pod ports",), "NodePorts", resolvable=True)
NO_DEVICES = Refusal(("cannot allocate all claims",), "DynamicResources")

Filter = Callable[[PodInfo, Cluster], Check | None]


def node_unschedulable(pod: PodInfo, cluster: Cluster) -> Check | None:
    """A cordoned node takes only pods that tolerate it."""
    if tolerates(pod.tolerations, UNSCHEDULABLE_TAINT):
        return None
    return lambda node: CORDONED if node.unschedulable else None


def taint_toleration(pod: PodInfo, cluster: Cluster) -> Check | None:
    """A taint keeps off who does not tolerate it."""
    return lambda node: TAINTED if node.taints and untolerated(pod.spec, node) else None


def node_affinity(pod: PodInfo, cluster: Cluster) -> Check | None:
    """Node selector and required node affinity. Raises ``HinderedError`` for terms that no node can fulfil."""
    if not pod.spec.get("nodeSelector") and node_terms(pod.spec) is None:
        return None
    named = named_nodes(pod.spec)
    if named is not None and not named:
        raise HinderedError("pod affinity terms conflict", "NodeAffinity")
    return lambda node: None if selects_node(pod.spec, node) else NOT_SELECTED


def node_named(pod: PodInfo, cluster: Cluster) -> Check | None:
    """Who asks for nodes by name does not have the others looked at."""
    named = named_nodes(pod.spec)
    return None if named is None else lambda node: None if node.name in named else NOT_NAMED


def node_ports(pod: PodInfo, cluster: Cluster) -> Check | None:
    """Host ports are taken once per address; no address means every address."""
    return partial(ports_free, pod) if pod.ports else None


def ports_free(pod: PodInfo, node: NodeState) -> Refusal | None:
    """Return why a pod's ports of the host keep it from a node."""
    for ip, protocol, port in pod.ports:
        for other_ip, other_protocol, other_port in node.ports:
            meets = ip == other_ip or EVERY_ADDRESS in (ip, other_ip)
            if meets and (protocol, port) == (other_protocol, other_port):
                return NO_PORTS
    return None


def node_resources(pod: PodInfo, cluster: Cluster) -> Check | None:
    """Every resource that is short is named; one that the empty node could not give either is beyond preemption."""
    return partial(_resources, {name: wanted for name, wanted in pod.requests.items() if wanted})


def _resources(wanted: Amounts, node: NodeState) -> Refusal | None:
    reasons, resolvable = [], True
    if len(node.pods) + 1 > node.allocatable.get("pods", 0):
        reasons.append("Too many pods")
    for name, amount in wanted.items():
        allocatable = node.allocatable.get(name, 0)
        if amount > allocatable - node.requested[name]:
            reasons.append(f"Insufficient {name}")
            resolvable = resolvable and amount <= allocatable
    return Refusal(tuple(reasons), "NodeResourcesFit", resolvable) if reasons else None


def volume_restrictions(pod: PodInfo, cluster: Cluster) -> Check | None:
    """Raise ``HinderedError`` for volumes that no node can give."""
    if not pod.claims:
        return None
    if hindrance := cluster.volumes.hindrance(pod.obj):
        raise HinderedError(hindrance, "VolumeBinding")
    return None


def _of_volumes(refusal: Callable[[PodInfo, Cluster, NodeState], Refusal | None]) -> Filter:
    """Return the filter of pods with volumes that somebody must bind."""
    return lambda pod, cluster: partial(refusal, pod, cluster) if pod.claims else None


def _bindable(pod: PodInfo, cluster: Cluster, node: NodeState) -> Refusal | None:
    """A pod goes where its volumes are, or can be made."""
    reasons = cluster.volumes.refusals(pod.obj, node)
    return Refusal(reasons, "VolumeBinding") if reasons else None


volume_binding = _of_volumes(_bindable)


def dynamic_resources(pod: PodInfo, cluster: Cluster) -> Check | None:
    """Claims of devices, which no node can fulfil: there is no driver for them."""
    return (lambda node: NO_DEVICES) if pod.spec.get("resourceClaims") else None


FILTERS: tuple[Filter, ...] = (
    node_named,
    node_unschedulable,
    taint_toleration,
    node_affinity,
    node_ports,
    node_resources,
    volume_restrictions,
    volume_binding,
    spread.prepare,
    affinity.prepare,
    dynamic_resources,
)


def prepare(pod: PodInfo, cluster: Cluster) -> list[Check]:
    """Return what is to be checked of each node. Raises ``HinderedError``."""
    found = (filter_(pod, cluster) for filter_ in FILTERS)
    return [check for check in found if check is not None]


def first_refusal(checks: list[Check], node: NodeState) -> Refusal | None:
    """Return the first refusal, or None for a node that fits."""
    for check in checks:
        refusal = check(node)
        if refusal is not None:
            return refusal
    return None


def refuse(pod: PodInfo, node: NodeState, cluster: Cluster, checks: list[Check]) -> Refusal | None:
    """Return why a pod cannot be on a node, which must also hold those that are to come before it."""
    if not cluster.nominated:
        return first_refusal(checks, node)
    rivals = [
        rival
        for rival in cluster.nominated.values()
        if rival.nominated == node.name and rival.priority >= pod.priority and rival.uid != pod.uid
    ]
    if rivals:
        with cluster.supposing(node.name, come=rivals):
            refusal = first_refusal(prepare(pod, cluster), node)
        if refusal is not None:
            return refusal
    return first_refusal(checks, node)
