"""What the scheduler knows of the cluster: nodes with the pods that hold their resources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from kubesim.api.quantity import parse
from kubesim.errors import Obj

ENDED = ("Succeeded", "Failed")
DEFAULT_MILLICPU = 100
DEFAULT_MEMORY = 200 * 1024**2
"""What a container without requests counts as when nodes are compared (never when they are filtered)."""

Port = tuple[str, str, int]


@dataclass
class NodeState:
    """A node and its pods; ``requested`` is in millicores for cpu, in whole units for all else."""

    obj: Obj
    pods: dict[str, Obj] = field(default_factory=dict)
    requested: Counter[str] = field(default_factory=Counter)
    nonzero: Counter[str] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        """The node's name."""
        return str(self.obj["metadata"]["name"])

    @property
    def labels(self) -> dict[str, str]:
        """The node's labels."""
        return self.obj["metadata"].get("labels") or {}

    @property
    def taints(self) -> list[Obj]:
        """The node's taints."""
        return self.obj.get("spec", {}).get("taints") or []

    def allocatable(self, name: str) -> int:
        """How much of a resource pods may have."""
        return units(name, self.obj.get("status", {}).get("allocatable", {}).get(name, "0"))

    def add(self, pod: Obj) -> None:
        """Count a pod in."""
        self.pods[pod["metadata"]["uid"]] = pod
        self.requested.update(requests(pod["spec"]))
        self.nonzero.update(nonzero_requests(pod["spec"]))

    def remove(self, uid: str) -> None:
        """Count a pod out."""
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self.requested.subtract(requests(pod["spec"]))
            self.nonzero.subtract(nonzero_requests(pod["spec"]))


class Reach(Protocol):
    """What the filters ask of volumes."""

    def refusals(self, pod: Obj, node: NodeState) -> tuple[str, ...]:
        """Return why a pod's volumes keep it from a node."""


class Cluster:
    """The nodes and pods of one cluster, kept up to date by ``set_node`` and ``set_pod``."""

    def __init__(self) -> None:
        self.volumes: Reach | None = None
        self.nodes: dict[str, NodeState] = {}
        self._placed: dict[str, tuple[str, Obj]] = {}

    def set_node(self, name: str, obj: Obj | None) -> None:
        """Take in a node, or its end."""
        if obj is None:
            self.nodes.pop(name, None)
        elif name in self.nodes:
            self.nodes[name].obj = obj
        else:
            state = self.nodes[name] = NodeState(obj)
            for node, pod in self._placed.values():
                if node == name:
                    state.add(pod)

    def set_pod(self, pod: Obj) -> None:
        """Take in a pod that holds resources of a node."""
        self.drop_pod(pod["metadata"]["uid"])
        node = pod["spec"].get("nodeName", "")
        if node and pod.get("status", {}).get("phase") not in ENDED:
            self._placed[pod["metadata"]["uid"]] = (node, pod)
            if node in self.nodes:
                self.nodes[node].add(pod)

    def drop_pod(self, uid: str) -> None:
        """Forget a pod."""
        node, _ = self._placed.pop(uid, ("", None))
        if node in self.nodes:
            self.nodes[node].remove(uid)

    def pods(self) -> Iterable[tuple[NodeState, Obj]]:
        """Return every placed pod with its node."""
        return ((node, pod) for node in self.nodes.values() for pod in node.pods.values())


def units(name: str, quantity: str) -> int:
    """Return a quantity in millicores (cpu) or whole units, rounded up."""
    value = parse(quantity) * (1000 if name == "cpu" else 1)
    return -(-value.numerator // value.denominator)


def requests(spec: Obj) -> Counter[str]:
    """Return what a pod asks of a node: its containers together or its greediest init container, plus overhead."""
    total: Counter[str] = Counter()
    for container in spec.get("containers", ()):
        total.update(_container_requests(container))
    sidecars: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in spec.get("initContainers") or ():
        wanted = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars.update(wanted)
            wanted = Counter()
        peak |= sidecars + wanted
    total.update(sidecars)
    total |= peak
    total.update({name: units(name, value) for name, value in (spec.get("overhead") or {}).items()})
    return total


def nonzero_requests(spec: Obj) -> Counter[str]:
    """Return cpu and memory for comparing nodes, with defaults where a container asks for none."""
    total: Counter[str] = Counter()
    for container in spec.get("containers", ()):
        wanted = _container_requests(container)
        total["cpu"] += wanted.get("cpu", DEFAULT_MILLICPU)
        total["memory"] += wanted.get("memory", DEFAULT_MEMORY)
    return total


def _container_requests(container: Obj) -> Counter[str]:
    resources = container.get("resources") or {}
    wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return Counter({name: units(name, str(value)) for name, value in wanted.items()})


def host_ports(spec: Obj) -> set[Port]:
    """Return the ports that a pod takes on its node: (address, protocol, port)."""
    ports = [port for container in spec.get("containers", ()) for port in container.get("ports") or ()]
    return {(p.get("hostIP", ""), p.get("protocol", "TCP"), p["hostPort"]) for p in ports if p.get("hostPort")}
