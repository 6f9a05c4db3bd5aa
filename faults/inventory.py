"""Nodes, addons and namespaces of a cluster, and the comparison with what packs require."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from faults.packs import NodePool, Pack, Requires

Obj = dict[str, Any]
GPU = "nvidia.com/gpu"
PRODUCT_LABEL, MIG_LABEL = "nvidia.com/gpu.product", "nvidia.com/mig.config"
OF_ONE_NODE = frozenset({"kubernetes.io/hostname", "nvidia.com/gfd.timestamp"})
"""Labels in which all nodes differ."""
REPELLING = ("NoSchedule", "NoExecute")
MAX_KINDS = 200
ADDON_GROUPS = {
    "gpu-operator": "nvidia.com",
    "metrics-server": "metrics.k8s.io",
    "mpi-operator": "kubeflow.org",
    "nvsentinel": "janitor.dgxc.nvidia.com",
    "prometheus-operator": "monitoring.coreos.com",
}
"""The API group by which each addon is known. Of the others, which have none, only a Prometheus is looked for."""
MONITORING = "monitoring"
NO_PROMETHEUS = "a Prometheus, known by its service's labels or by the address in the cluster's entry; it is missing"


@dataclass(frozen=True, slots=True)
class NodeKind:
    """Nodes that are alike in everything a pack can ask for; taints as key, effect and value."""

    gpus: int
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...] = ()
    count: int = 1

    def dump(self) -> Obj:
        """Return it as JSON."""
        return {"gpus": self.gpus, "labels": dict(self.labels), "taints": self.taints, "count": self.count}

    @classmethod
    def load(cls, data: Obj) -> NodeKind:
        """Read what ``dump`` wrote."""
        taints = tuple((key, effect, value) for key, effect, value in data["taints"])
        return cls(data["gpus"], data["labels"], taints, data["count"])


@dataclass(frozen=True, slots=True)
class Inventory:
    """The nodes of a cluster that take new pods, its API groups, whether it has a Prometheus, and its namespaces.

    Where nobody has looked, there is a Prometheus, and ``namespaces`` is None.
    """

    nodes: Sequence[NodeKind]
    groups: frozenset[str] = field(default_factory=frozenset)
    is_monitored: bool = True
    namespaces: frozenset[str] | None = None

    @classmethod
    def of(
        cls, nodes: Iterable[Obj], groups: Iterable[str], *, is_monitored: bool, namespaces: Iterable[Obj]
    ) -> Inventory:
        """Return what a cluster tells of itself; of more than ``MAX_KINDS`` kinds of nodes the commonest."""
        counts = Counter(_key(kind_of(node)) for node in nodes if is_open(node))
        kinds = [
            NodeKind(gpus, dict(labels), taints, n) for (gpus, labels, taints), n in counts.most_common(MAX_KINDS)
        ]
        return cls(kinds, frozenset(groups), is_monitored, frozenset(each["metadata"]["name"] for each in namespaces))

    def dump(self) -> Obj:
        """Return it as JSON."""
        return {
            "nodes": [kind.dump() for kind in self.nodes],
            "groups": sorted(self.groups),
            "is_monitored": self.is_monitored,
            "namespaces": None if self.namespaces is None else sorted(self.namespaces),
        }

    @classmethod
    def load(cls, data: Obj) -> Inventory:
        """Read what ``dump`` wrote."""
        named = data.get("namespaces")
        return cls(
            [NodeKind.load(kind) for kind in data["nodes"]],
            frozenset(data["groups"]),
            data.get("is_monitored", True),
            None if named is None else frozenset(named),
        )


def is_open(node: Obj) -> bool:
    """Return whether nobody has closed a node for new pods."""
    return not node["spec"].get("unschedulable")


def kind_of(node: Obj) -> NodeKind:
    """Return what a pack may ask for of a node."""
    allocatable = node.get("status", {}).get("allocatable") or {}
    gpus = sum(int(count) for name, count in allocatable.items() if name == GPU or name.startswith("nvidia.com/mig-"))
    labels = node["metadata"].get("labels") or {}
    taints = node["spec"].get("taints") or ()
    return NodeKind(
        gpus,
        {key: text for key, text in labels.items() if key not in OF_ONE_NODE},
        tuple(sorted((taint["key"], taint["effect"], taint.get("value", "")) for taint in taints)),
    )


def gpus_taken_on(pods: Iterable[Obj]) -> set[str]:
    """Return the nodes of which pods that have not ended hold GPUs."""
    running = (pod for pod in pods if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"))
    return {pod["spec"]["nodeName"] for pod in running if pod["spec"].get("nodeName") and _asks_for_gpus(pod)}


def _asks_for_gpus(pod: Obj) -> bool:
    limits = (one.get("resources", {}).get("limits") or {} for one in pod["spec"]["containers"])
    return any(name == GPU or name.startswith("nvidia.com/mig-") for names in limits for name in names)


def suits(kind: NodeKind, pool: NodePool) -> bool:
    """Return whether nodes of a kind can be those of a pool."""
    has_gpus = kind.gpus >= pool.gpus if pool.gpus or not pool.name else not kind.gpus
    return has_gpus and _is_product(kind, pool) and pool.labels.items() <= kind.labels.items() and _taints(kind, pool)


def lacking(found: Inventory, requires: Requires) -> Iterator[str]:
    """Yield each thing that a pack requires and a cluster has not: ``2 nodes with ..., and there are 1``."""
    for pool in requires.all_pools:
        there = sum(kind.count for kind in found.nodes if suits(kind, pool))
        if there < pool.count:
            yield f"{described(pool)}; there {'is' if there == 1 else 'are'} {there or 'none'}"
    most = max((kind.gpus for kind in found.nodes), default=0)
    if requires.max_gpus is not None and most > requires.max_gpus:
        yield f"no node with more than {requires.max_gpus} GPUs; there is one with {most}"
    for label in requires.no_labels:
        key, _, text = label.partition("=")
        if any(kind.labels.get(key) == text for kind in found.nodes):
            yield f"no node with the label {label}; there is one"
    for addon in requires.addons:
        if addon in ADDON_GROUPS and ADDON_GROUPS[addon] not in found.groups:
            yield f"the addon {addon} (the API group {ADDON_GROUPS[addon]}); it is missing"
    if MONITORING in requires.addons and not found.is_monitored:
        yield NO_PROMETHEUS


def lacks(found: Inventory, packs: Iterable[Pack], where: str) -> str:
    """Return, in a sentence, the first thing that a pack requires of a cluster in vain; empty where there is none."""
    for pack in packs:
        for what in (*lacking(found, pack.requires), *_missing_namespaces(found, pack)):
            return f"“{pack.title}” needs {what} in {where}."
    return ""


def _missing_namespaces(found: Inventory, pack: Pack) -> Iterator[str]:
    """Yield each namespace that a pack takes to be there already, and a cluster has not."""
    for name in pack.existing:
        if found.namespaces is not None and name not in found.namespaces:
            yield f"the namespace {name}; it is missing"


def described(pool: NodePool) -> str:
    """Return a pool in words."""
    nodes = f"{pool.count} node{'s' if pool.count > 1 else ''}"
    if pool.gpus:
        nodes += f" with at least {pool.gpus} GPU{'s' if pool.gpus > 1 else ''}"
        nodes += " each" if pool.count > 1 else ""
        nodes += f" ({' or '.join(pool.products)})" if pool.products else ""
    elif pool.name:
        nodes += " without GPUs"
    parts = [nodes]
    parts += [f"the MIG configuration {pool.mig}"] if pool.mig else []
    parts += [f"the label {key}={text}" for key, text in pool.labels.items()]
    parts += [f"the taint {taint.key}={taint.value}:{taint.effect}" for taint in pool.taints]
    return ", ".join(parts)


def _key(kind: NodeKind) -> tuple[int, tuple[tuple[str, str], ...], tuple[tuple[str, str, str], ...]]:
    return kind.gpus, tuple(sorted(kind.labels.items())), kind.taints


def _is_product(kind: NodeKind, pool: NodePool) -> bool:
    """Compare the words of the label: ``T4`` is a ``Tesla-T4``, and ``A100`` any of those."""
    words = set(kind.labels.get(PRODUCT_LABEL, "").split("-"))
    if pool.mig:
        return kind.labels.get(MIG_LABEL) == pool.mig and _is_one(words, pool.products)
    return not (pool.gpus and "MIG" in words) and _is_one(words, pool.products)


def _is_one(words: set[str], products: Sequence[str]) -> bool:
    return not products or any(words.issuperset(product.split("-")) for product in products)


def _taints(kind: NodeKind, pool: NodePool) -> bool:
    """Compare taints; pods that ask for a GPU are made to tolerate the one that keeps GPU nodes for them."""
    wanted = {(taint.key, taint.effect, taint.value) for taint in pool.taints}
    keeping = {taint for taint in kind.taints if taint[1] in REPELLING and not (taint[0] == GPU and kind.gpus)}
    return wanted <= set(kind.taints) and keeping <= wanted
