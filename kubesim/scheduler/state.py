"""The scheduler's view of the cluster, and the answers of its filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kubesim.api.quantity import parse
from kubesim.api.selectors import LabelSelector
from kubesim.errors import Obj
from kubesim.scheduler.terms import Term, pod_terms

if TYPE_CHECKING:
    from kubesim.scheduler.relations import Watched
    from kubesim.scheduler.volumes import Volumes

ENDED = ("Succeeded", "Failed")
MISSING = {"cpu": 100, "memory": 200 * 1024**2}
"""What a container without requests counts as when nodes are compared (never when they are filtered)."""
OF_PODS = ("cpu", "memory")
"""What the resources of a whole pod may name, beside huge pages."""
CACHED_SELECTORS = 256
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared, never bound

Port = tuple[str, str, int]
Amounts = dict[str, int]


class PodInfo:
    """A pod with what scheduling asks of it again and again, worked out once."""

    def __init__(self, obj: Obj) -> None:
        self.hold(obj)
        self.uid = str(obj["metadata"]["uid"])
        self.namespace = str(obj["metadata"].get("namespace", ""))
        self.priority = int(self.spec.get("priority") or 0)
        self.requests = requests(self.spec)
        self.nonzero = requests(self.spec, MISSING)
        self.ports = host_ports(self.spec)
        self.ending = obj["metadata"].get("deletionTimestamp") is not None

    def hold(self, obj: Obj) -> None:
        """Take in another version of the pod that asks for the same."""
        self.obj = obj
        self.labels: dict[str, str] = obj["metadata"].get("labels") or {}
        self.spec: Obj = obj["spec"]

    @property
    def key(self) -> str:
        """Return ``namespace/name``."""
        return f"{self.namespace}/{self.obj['metadata']['name']}"

    @property
    def tolerations(self) -> list[Obj]:
        """Return what taints the pod bears."""
        return self.spec.get("tolerations") or []

    @property
    def nominated(self) -> str:
        """Return the node on which room is being made for the pod."""
        return str(self.obj.get("status", {}).get("nominatedNodeName", ""))

    @cached_property
    def terms(self) -> dict[str, list[Term]]:
        """Return the pod's wishes about other pods, by kind (see ``pod_terms``)."""
        return pod_terms(self.obj)

    @property
    def claims(self) -> bool:
        """Tell whether the pod has volumes that somebody must bind."""
        return any("persistentVolumeClaim" in v or "ephemeral" in v for v in self.spec.get("volumes") or ())

    @property
    def affine(self) -> bool:
        """Tell whether the pod has wishes about other pods."""
        affinity = self.spec.get("affinity") or {}
        return bool(affinity.get("podAffinity") or affinity.get("podAntiAffinity"))


@dataclass
class NodeState:
    """A node and its pods; amounts are in millicores for cpu, in whole units for all else."""

    obj: Obj
    pods: dict[str, PodInfo] = field(default_factory=dict)
    requested: Counter[str] = field(default_factory=Counter)
    nonzero: Counter[str] = field(default_factory=Counter)
    ports: Counter[Port] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.set(self.obj)

    def set(self, obj: Obj) -> None:
        """Take in what the node has become."""
        self.obj = obj
        self.name = str(obj["metadata"]["name"])
        self.labels: dict[str, str] = obj["metadata"].get("labels") or {}
        self.taints: list[Obj] = obj.get("spec", {}).get("taints") or []
        self.unschedulable = bool(obj.get("spec", {}).get("unschedulable"))
        for counted in ("allocatable", "images"):
            self.__dict__.pop(counted, None)

    @cached_property
    def allocatable(self) -> dict[str, int]:
        """Resources for its pods, counted when first asked for: whoever looks at labels alone needs none of it."""
        allocatable = self.obj.get("status", {}).get("allocatable") or {}
        return {name: units(name, value) for name, value in allocatable.items()}

    @cached_property
    def images(self) -> dict[str, int]:
        """The sizes of the images that it has, by their names."""
        images = self.obj.get("status", {}).get("images") or ()
        return {name: image.get("sizeBytes", 0) for image in images for name in image.get("names") or ()}

    def add(self, pod: PodInfo) -> None:
        """Count a pod in."""
        self.pods[pod.uid] = pod
        self.requested.update(pod.requests)
        self.nonzero.update(pod.nonzero)
        self.ports.update(pod.ports)

    def remove(self, uid: str) -> None:
        """Count a pod out."""
        pod = self.pods.pop(uid)
        self.requested.subtract(pod.requests)
        self.nonzero.subtract(pod.nonzero)
        if pod.ports:
            self.ports -= Counter(pod.ports)


class Cluster:
    """The nodes and pods of one cluster, kept up to date by ``set_node`` and ``set_pod``."""

    def __init__(self, volumes: Volumes, relations: Watched) -> None:
        self.volumes = volumes
        self.relations = relations
        self.nodes: dict[str, NodeState] = {}
        self.nominated: dict[str, PodInfo] = {}
        """Pods without a node for which room is being made on one, by uid."""
        self.affine: dict[str, PodInfo] = {}
        """Placed pods that have wishes about others, by uid."""
        self._placed: dict[str, tuple[str, PodInfo]] = {}
        self._counts: dict[tuple[str, LabelSelector], Counter[str]] = {}

    def set_node(self, name: str, obj: Obj | None) -> None:
        """Take in a node, or its end."""
        if obj is None:
            self.nodes.pop(name, None)
        elif name in self.nodes:
            self.nodes[name].set(obj)
        else:
            state = self.nodes[name] = NodeState(obj)
            for node, pod in self._placed.values():
                if node == name:
                    state.add(pod)

    def set_pod(self, obj: Obj) -> None:
        """Take in a pod that holds resources of a node."""
        node = obj["spec"].get("nodeName", "")
        placed = self._placed.get(obj["metadata"]["uid"])
        if placed is not None and placed[0] == node and _claims(placed[1].obj) == _claims(obj):
            placed[1].hold(obj)
            return
        self.drop_pod(obj["metadata"]["uid"])
        if node and obj.get("status", {}).get("phase") not in ENDED:
            self._add(node, PodInfo(obj))

    def drop_pod(self, uid: str) -> None:
        """Forget a pod."""
        if uid in self._placed:
            self._remove(uid)

    def _add(self, node: str, pod: PodInfo) -> None:
        self._placed[pod.uid] = (node, pod)
        if pod.affine:
            self.affine[pod.uid] = pod
        if node in self.nodes:
            self.nodes[node].add(pod)
        self._count(node, pod, 1)

    def _remove(self, uid: str) -> None:
        node, pod = self._placed.pop(uid)
        self.affine.pop(uid, None)
        if node in self.nodes:
            self.nodes[node].remove(uid)
        self._count(node, pod, -1)

    def _count(self, node: str, pod: PodInfo, by: int) -> None:
        if not pod.ending:
            for (namespace, selector), counts in self._counts.items():
                if namespace == pod.namespace and selector.matches(pod.labels):
                    counts[node] += by

    def matching(self, namespace: str, selector: LabelSelector) -> Counter[str]:
        """Return how many selected pods each node has; those that are going do not count."""
        key = (namespace, selector)
        counts = self._counts.get(key)
        if counts is None:
            placed = ((node, pod) for node, pod in self._placed.values() if pod.namespace == namespace)
            counts = Counter(node for node, pod in placed if not pod.ending and selector.matches(pod.labels))
            if len(self._counts) >= CACHED_SELECTORS:
                del self._counts[next(iter(self._counts))]
            self._counts[key] = counts
        return counts

    def node_of(self, pod: PodInfo) -> NodeState | None:
        """Return where a placed pod is."""
        return self.nodes.get(self._placed[pod.uid][0])

    def pods(self) -> Iterable[tuple[NodeState, PodInfo]]:
        """Return every placed pod with its node."""
        return ((node, pod) for node in self.nodes.values() for pod in node.pods.values())

    @contextmanager
    def supposing(self, node: str, *, come: Collection[PodInfo] = (), go: Collection[PodInfo] = ()) -> Iterator[None]:
        """Suppose for the block that some pods came to a node and others left it."""
        for pod in go:
            self._remove(pod.uid)
        for pod in come:
            self._add(node, pod)
        try:
            yield
        finally:
            for pod in come:
                self._remove(pod.uid)
            for pod in go:
                self._add(node, pod)


def _claims(pod: Obj) -> tuple[object, ...]:
    """What of a placed pod decides what it takes from others."""
    meta = pod["metadata"]
    return pod["spec"], meta.get("labels"), meta.get("deletionTimestamp"), pod.get("status", {}).get("phase") in ENDED


def units(name: str, quantity: Any) -> int:
    """Return a quantity in millicores (cpu) or whole units, rounded up."""
    value = parse(str(quantity)) * (1000 if name == "cpu" else 1)
    return -(-value.numerator // value.denominator)


def requests(spec: Obj, missing: Amounts | None = None) -> Amounts:
    """Return what a pod asks of a node: its containers together or its greediest init container, plus overhead.

    ``missing`` is what a container counts as that does not say.
    """
    total: Counter[str] = Counter()
    for container in spec.get("containers", ()):
        total.update(_asked(container, missing))
    sidecars: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in spec.get("initContainers") or ():
        wanted = _asked(container, missing)
        if container.get("restartPolicy") == "Always":
            sidecars.update(wanted)
            peak |= sidecars
        else:
            peak |= sidecars + wanted
    total.update(sidecars)
    total |= peak
    of_pod = _asked(spec, None)
    total.update({name: value - total[name] for name, value in of_pod.items() if _may_be_of_pod(name)})
    total.update({name: units(name, value) for name, value in (spec.get("overhead") or {}).items()})
    return dict(total)


def _may_be_of_pod(name: str) -> bool:
    return name in OF_PODS or name.startswith("hugepages-")


def _asked(owner: Obj, missing: Amounts | None) -> Counter[str]:
    wanted = (owner.get("resources") or {}).get("requests") or {}
    return Counter({**(missing or {}), **{name: units(name, value) for name, value in wanted.items()}})


def host_ports(spec: Obj) -> set[Port]:
    """Return the ports that a pod takes on its node: (address, protocol, port)."""
    owners = [*spec.get("containers", ()), *_sidecars(spec)]
    ports = [p for container in owners for p in container.get("ports") or () if p.get("hostPort")]
    return {(p.get("hostIP") or EVERY_ADDRESS, p.get("protocol", "TCP"), p["hostPort"]) for p in ports}


def _sidecars(spec: Obj) -> list[Obj]:
    return [found for found in spec.get("initContainers") or () if found.get("restartPolicy") == "Always"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Refusal of a node: the reasons as texts, and the plugin that has them.

    It is resolvable if removing pods from the node could lift it.
    """

    reasons: tuple[str, ...]
    plugin: str = ""
    resolvable: bool = False


Check = Callable[[NodeState], Refusal | None]


class HinderedError(Exception):
    """A pod can be on no node at all, whatever the nodes are; the message says why."""

    def __init__(self, message: str, plugin: str) -> None:
        super().__init__(message)
        self.plugin = plugin
