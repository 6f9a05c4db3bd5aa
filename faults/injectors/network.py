"""Network partitions as NetworkPolicies, which keep some pods from others and leave everything else open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from faults.engine.actions import Change
from faults.engine.ports import Obj
from faults.injectors import isolation
from faults.injectors.kinds import Schema, StepError
from faults.injectors.manifest import Create, Manifest
from faults.injectors.patch import PatchObject

BETWEEN = ("frontend_worker", "worker_nats", "worker_worker")
"""Partitions between pods of one namespace; the words say who is kept from whom."""
CUSTOM = "custom"
BLOCKS = ("ingress", "egress", "all")
MAX_PORT = 65535
TENANTS = "tenants"
"""Key of a planned step: the session's own namespaces, where the partition is in one of them. No pack writes it."""
_NAME = r"^([a-z0-9]|\$\{[a-z.-]+\})(([a-z0-9-]|\$\{[a-z.-]+\}){0,61}([a-z0-9]|\$\{[a-z.-]+\}))?$"
"""A name of an object, in which a pack may have placeholders."""
_LABELS: Schema = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 8,
    "additionalProperties": {"type": "string", "maxLength": 63},
}


class Network(Manifest):
    """Keeps pods of a namespace from each other by a NetworkPolicy; taken back by deleting exactly this policy.

    In a session's own namespaces their isolation is changed as well, and restored.
    """

    name = "network"
    since = 2
    fields: ClassVar = {
        "namespace": {"type": "string", "minLength": 1},
        "name": {"type": "string", "pattern": _NAME},
        "partition": {"type": "string"},
        "source": _LABELS,
        "target": _LABELS,
        "ports": {
            "type": "array",
            "minItems": 1,
            "maxItems": 8,
            "uniqueItems": True,
            "items": {"type": "integer", "minimum": 1, "maximum": MAX_PORT},
        },
        "block": {"type": "string"},
        "dns": {"type": "boolean"},
    }
    required = ("namespace", "name", "partition", "source")
    verb = "Partitioning"

    def changes(self, spec: Obj) -> Sequence[Change]:
        """Return the creation of the policy; in a session's own namespaces, with room made for it."""
        made = policy(spec)
        if TENANTS not in spec:
            return [Create(made, injector=self.name)]
        part = isolation.parted([made], spec[TENANTS])
        creations = [Create(each, injector=self.name) for each in part.policies]
        return [*creations, PatchObject(part.target, [*part.operations], injector=self.name, patch_type="json")]

    def check(self, spec: Obj) -> None:
        """Refuse unknown partitions, and fields that a partition does not have."""
        partition, known = spec["partition"], (*BETWEEN, CUSTOM)
        if partition not in known:
            raise StepError("partition", f"{partition} is not known; valid are: {', '.join(known)}")
        if partition == CUSTOM:
            if spec.get("block") not in BLOCKS:
                raise StepError("block", f"is needed for partition: custom; valid are: {', '.join(BLOCKS)}")
            unfit = {"target", "ports"}
        else:
            unfit = {"block", "dns"} | ({"target"} if partition == "worker_worker" else set())
            if partition != "worker_worker" and "target" not in spec:
                raise StepError("target", f"is needed for partition: {partition}")
        for field in sorted(unfit & spec.keys()):
            raise StepError(field, f"has no meaning for partition: {partition}")
        if TENANTS in spec:
            try:
                isolation.parted([policy(spec)], spec[TENANTS])
            except isolation.ManyLabels as exc:
                raise StepError("target" if "target" in spec else "source", str(exc)) from exc


def policy(spec: Obj) -> Obj:
    """Return the NetworkPolicy of a step."""
    meta = {"name": spec["name"], "namespace": spec["namespace"]}
    return {"apiVersion": isolation.API_VERSION, "kind": "NetworkPolicy", "metadata": meta, "spec": _spec(spec)}


def _spec(spec: Obj) -> Obj:
    if spec["partition"] == CUSTOM:
        return _closed(spec)
    source, target = spec["source"], spec.get("target", spec["source"])
    rules = [{"from": [*_all_but(source), *_elsewhere(spec)]}]
    if "ports" in spec:
        rules.append({"from": [{"podSelector": {"matchLabels": source}}], "ports": [*_ports_but(spec["ports"])]})
    return {"podSelector": {"matchLabels": target}, "policyTypes": ["Ingress"], "ingress": rules}


def _closed(spec: Obj) -> Obj:
    """Return what closes pods in one direction or both; names can be asked for unless ``dns`` is false."""
    closed: Obj = {"podSelector": {"matchLabels": spec["source"]}, "policyTypes": []}
    if spec["block"] in ("ingress", "all"):
        closed["policyTypes"].append("Ingress")
    if spec["block"] in ("egress", "all"):
        closed["policyTypes"].append("Egress")
        closed["egress"] = [isolation.dns()] if spec.get("dns", True) else []
    return closed


def _all_but(labels: Mapping[str, str]) -> Iterator[Any]:
    """Yield peers that together are all pods of the namespace but those with all of these labels."""
    for key, value in labels.items():
        yield {"podSelector": {"matchExpressions": [{"key": key, "operator": "NotIn", "values": [value]}]}}


def _elsewhere(spec: Obj) -> Iterator[Obj]:
    """Yield the peers of other namespaces: of a session's own ones, or all."""
    others = [name for name in spec.get(TENANTS, []) if name != spec["namespace"]]
    if others:
        yield isolation.among(others)
    elif TENANTS not in spec:
        row = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [spec["namespace"]]}
        yield {"namespaceSelector": {"matchExpressions": [row]}}


def _ports_but(ports: Sequence[int]) -> Iterator[Obj]:
    """Yield the ranges of ports between those that are closed."""
    edges = [0, *sorted(ports), MAX_PORT + 1]
    for before, after in zip(edges, edges[1:], strict=False):
        if after - before > 1:
            for protocol in ("TCP", "UDP"):
                yield {"protocol": protocol, "port": before + 1, "endPort": after - 1}
