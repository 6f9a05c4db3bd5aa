"""The isolation of a session's namespaces, and partitions inside of it.

Network policies only ever add to what is open. A session's namespaces are open to each other, for all their pods, by
the policy ``namespace-isolation``; so a partition there first opens every *other* pod by a policy of its own, then
what is left of the pods that it closes, and last takes their common opening out of ``namespace-isolation``.
Monitoring, the toolbox and, unless it is to be closed, DNS stay open to all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from faults.engine.model import Target
from faults.engine.ports import Obj

API_VERSION = "networking.k8s.io/v1"
NETWORK_POLICY = "namespace-isolation"
MAX_OPENINGS = 8
"""Policies for the pods that a partition leaves alone: their selectors can exclude one label of each closed side."""
MONITORING = "monitoring"
"""The namespace whose pods, Prometheus' among them, every isolation lets in, partitions or not."""
_NAME_LABEL = "kubernetes.io/metadata.name"
_NODE_LOCAL_DNS = "169.254.20.10/32"  # the one link-local address that pods may ask, and only for names
_DIRECTIONS = ("Ingress", "Egress")


class ManyLabels(Exception):
    """A partition's pods have so many labels that the others cannot be selected."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition inside of an isolation: policies to create, then operations on the isolation itself."""

    policies: Sequence[Obj]
    target: Target
    operations: Sequence[Obj]


def policy(namespace: str, tenants: Sequence[str], visitors: Sequence[str]) -> Obj:
    """Return the isolation. It selects all pods in both directions: no metadata server, no other tenant."""
    spec = {
        "podSelector": {},
        "policyTypes": [*_DIRECTIONS],
        "ingress": [{"from": [among(tenants), among([MONITORING, *visitors])]}],
        "egress": [{"to": [among(tenants)]}, dns()],
    }
    return _policy(NETWORK_POLICY, namespace, spec)


def among(namespaces: Sequence[str]) -> Obj:
    """Return the peer that all pods of these namespaces are."""
    return {"namespaceSelector": named(namespaces)}


def named(namespaces: Sequence[str]) -> Obj:
    """Return the selector of these namespaces."""
    return {"matchExpressions": [{"key": _NAME_LABEL, "operator": "In", "values": [*namespaces]}]}


def is_isolation(found: Obj) -> bool:
    """Return whether a policy is one of ``policy``, whatever partitions have taken out of it."""
    return any(MONITORING in _names(peer) for peer in _peers(found, "ingress", "from"))


def tenants_of(isolation: Obj) -> list[str]:
    """Return the namespaces that an isolation opens to each other; none where partitions close both directions."""
    peers = [*_peers(isolation, "ingress", "from"), *_peers(isolation, "egress", "to")]
    namespace = isolation["metadata"]["namespace"]
    return next((names for peer in peers if namespace in (names := _names(peer))), [])


def _peers(found: Obj, rules: str, side: str) -> list[Obj]:
    return [peer for rule in found["spec"].get(rules, []) for peer in rule.get(side, [])]


def contradict(one: Obj, other: Obj) -> bool:
    """Return whether two policies may select the same pod, by labels in the first, and open it differently.

    A pod that policies select may do what any of them allows.
    """
    rules = {"Ingress": "ingress", "Egress": "egress"}
    both = set(one["policyTypes"]) & set(other["policyTypes"])
    differ = any((one.get(rules[name]) or []) != (other.get(rules[name]) or []) for name in both)
    return differ and not _are_apart(one["podSelector"]["matchLabels"], other["podSelector"])


def _are_apart(labels: Mapping[str, str], selector: Obj) -> bool:
    """Return whether a selector selects no pod that has these labels, whatever others it has."""
    rows = [
        {"key": key, "operator": "In", "values": [value]} for key, value in selector.get("matchLabels", {}).items()
    ]
    rows += selector.get("matchExpressions", [])
    return any(
        row["operator"] == "DoesNotExist"
        or (row["operator"] == "In" and labels[row["key"]] not in row["values"])
        or (row["operator"] == "NotIn" and labels[row["key"]] in row["values"])
        for row in rows
        if row["key"] in labels
    )


def is_whole(isolation: Obj, policies: Sequence[Obj]) -> bool:
    """Return whether no other partition has taken out of an isolation what these would."""
    spec, common = isolation["spec"], [among(tenants_of(isolation))]
    found = {
        "Ingress": [rule.get("from", [])[:1] for rule in spec.get("ingress", [])],
        "Egress": [rule.get("to", []) for rule in spec.get("egress", [])],
    }
    whole = {"Ingress": [common], "Egress": [common, dns()["to"]]}
    return all(found[direction] == whole[direction] for direction in _directions(policies))


def _names(peer: Obj) -> list[str]:
    rows = peer.get("namespaceSelector", {}).get("matchExpressions", [])
    return [name for row in rows if (row["key"], row["operator"]) == (_NAME_LABEL, "In") for name in row["values"]]


def parted(policies: Sequence[Obj], tenants: Sequence[str]) -> Partition:
    """Return what makes these policies of one namespace close their pods although its isolation opens them.

    Raises ManyLabels.
    """
    meta = policies[0]["metadata"]
    openings = [spec for direction in _directions(policies) for spec in _openings(direction, policies, tenants)]
    others = [
        _policy(f"{meta['name']}-others{f'-{number}' if number > 1 else ''}", meta["namespace"], spec)
        for number, spec in enumerate(openings, start=1)
    ]
    target = Target(API_VERSION, "NetworkPolicy", meta["namespace"], NETWORK_POLICY)
    return Partition([*others, *policies], target, [*_operations(policies)])


def _directions(policies: Sequence[Obj]) -> list[str]:
    """Return the directions in which any of the policies closes pods."""
    return [name for name in _DIRECTIONS if any(name in each["spec"]["policyTypes"] for each in policies)]


def _openings(direction: str, policies: Sequence[Obj], tenants: Sequence[str]) -> Iterator[Obj]:
    """Yield what opens, in a direction, all pods that none of the policies closes in it.

    A selector can exclude one label of each: pods that lack any of a closed side's labels are others.
    """
    specs = [each["spec"] for each in policies if direction in each["spec"]["policyTypes"]]
    choices = [*product(*(spec["podSelector"]["matchLabels"].items() for spec in specs))]
    if len(choices) > MAX_OPENINGS:
        raise ManyLabels("The pods have too many labels to tell the others from them: name one label of each.")
    for labels in choices:
        rows = [{"key": key, "operator": "NotIn", "values": [value]} for key, value in dict.fromkeys(labels)]
        spec: dict[str, Any] = {"podSelector": {"matchExpressions": rows}, "policyTypes": [direction]}
        if direction == "Ingress":
            yield {**spec, "ingress": [{"from": [among(tenants)]}]}
        else:
            names = [dns()] if _closes_names(policies) else []
            yield {**spec, "egress": [{"to": [among(tenants)]}, *names]}


def _operations(policies: Sequence[Obj]) -> Iterator[Obj]:
    """Yield the JSON patch. Moving the rule behind to the front fails where there is none any more."""
    for direction, place in (("Ingress", "/spec/ingress/0/from"), ("Egress", "/spec/egress")):
        if direction in _directions(policies):
            yield {"op": "move", "from": f"{place}/1", "path": f"{place}/0"}
            yield {"op": "remove", "path": f"{place}/1"}
    if _closes_names(policies):
        yield {"op": "remove", "path": "/spec/egress/0"}


def _closes_names(policies: Iterable[Obj]) -> bool:
    """Return whether any policy keeps its pods from DNS, the only way out that has ports."""
    outward = [each["spec"].get("egress", []) for each in policies if "Egress" in each["spec"]["policyTypes"]]
    return any(not any("ports" in rule for rule in rules) for rules in outward)


def dns() -> Obj:
    """Return the rule that lets pods ask for names."""
    ports = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    return {"to": [among(["kube-system"]), {"ipBlock": {"cidr": _NODE_LOCAL_DNS}}], "ports": ports}


def _policy(name: str, namespace: str, spec: Obj) -> Obj:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": "NetworkPolicy", "metadata": meta, "spec": spec}
